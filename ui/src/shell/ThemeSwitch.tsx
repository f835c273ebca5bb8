import { useState } from "react";
import { Icon, type IconName } from "../parts/Icon.tsx";
import { chooseTheme, chosenTheme, THEMES, type Theme } from "./theme.ts";

const LOOKS: Record<Theme, { icon: IconName; words: string }> = {
  system: { icon: "screen", words: "As the system" },
  light: { icon: "sun", words: "Light" },
  dark: { icon: "moon", words: "Dark" },
};

export function ThemeSwitch() {
  const [theme, setTheme] = useState(chosenTheme);
  const choose = (next: Theme) => {
    chooseTheme(next);
    setTheme(next);
  };
  return (
    <div className="themes" role="radiogroup" aria-label="Colours">
      {THEMES.map((one) => (
        <button
          key={one}
          type="button"
          role="radio"
          aria-checked={one === theme}
          aria-label={LOOKS[one].words}
          title={LOOKS[one].words}
          onClick={() => choose(one)}
        >
          <Icon name={LOOKS[one].icon} size={14} />
        </button>
      ))}
    </div>
  );
}
