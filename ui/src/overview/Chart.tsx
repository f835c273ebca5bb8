/** Lines along time. */
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";

export interface Series {
  name: string;
  /** A colour's name among the tokens: `--s-failed`. */
  colour: string;
  values: (number | null)[];
  bars?: boolean;
}

interface Props {
  /** Seconds since 1970. */
  times: number[];
  series: Series[];
  height?: number;
  label: string;
  /** What stands at the axis. */
  shown?: (value: number) => string;
}

export default function Chart({ times, series, height = 190, label, shown }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const chart = useRef<uPlot>(undefined);
  const look = series.map((one) => `${one.name} ${one.colour}`).join();
  const data: uPlot.AlignedData = [times, ...series.map((one) => one.values)];
  const latest = useRef({ data, series, shown });
  latest.current = { data, series, shown };

  // biome-ignore lint/correctness/useExhaustiveDependencies: another look is another chart; other data are not
  useEffect(() => {
    const box = frame.current;
    if (!box) return;
    const draw = () => {
      chart.current?.destroy();
      chart.current = new uPlot(
        options(box, latest.current.series, height, latest.current.shown),
        latest.current.data,
        box,
      );
    };
    draw();
    const size = new ResizeObserver(([entry]) => {
      if (entry) chart.current?.setSize({ width: Math.max(120, entry.contentRect.width), height });
    });
    size.observe(box);
    // Colours are drawn, and drawn again when the page has others.
    const theme = new MutationObserver(draw);
    theme.observe(document.documentElement, { attributeFilter: ["data-theme"] });
    const system = matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", draw);
    return () => {
      size.disconnect();
      theme.disconnect();
      system.removeEventListener("change", draw);
      chart.current?.destroy();
      chart.current = undefined;
    };
  }, [look, height]);
  useEffect(() => chart.current?.setData(data));
  return <div className="chart" ref={frame} role="img" aria-label={label} />;
}

/** A token as a colour that can be drawn with. */
function colourOf(box: HTMLElement, token: string): string {
  const probe = document.createElement("i");
  probe.style.color = `var(${token})`;
  box.append(probe);
  const colour = getComputedStyle(probe).color;
  probe.remove();
  return colour;
}

function options(
  box: HTMLElement,
  series: Series[],
  height: number,
  shown?: (value: number) => string,
): uPlot.Options {
  const [ink, line] = [colourOf(box, "--ink-3"), colourOf(box, "--line")];
  const font = `11px ${getComputedStyle(box).fontFamily}`;
  const axis = { stroke: ink, font, grid: { stroke: line, width: 1 }, ticks: { show: false } };
  return {
    width: Math.max(120, box.clientWidth),
    height,
    padding: [8, 8, 0, 0],
    cursor: { y: false, points: { size: 6 } },
    legend: { live: true },
    scales: {
      x: { time: true, range: (_, min, max) => [Math.min(min ?? 0, (max ?? 0) - 60), max ?? 60] },
      y: { range: (_, __, max) => [0, Math.max(4, (max ?? 0) * 1.15)] },
    },
    axes: [
      { ...axis, size: 26, space: 70, values: "{HH}:{mm}" },
      {
        ...axis,
        size: 46,
        space: 34,
        incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 1e7],
        values: (_, ticks) => ticks.map((tick) => (shown ? shown(tick) : String(tick))),
      },
    ],
    series: [
      { label: "Time", value: "{HH}:{mm}:{ss}" },
      ...series.map((one): uPlot.Series => {
        const colour = colourOf(box, one.colour);
        return {
          label: one.name,
          stroke: colour,
          width: 1.8,
          fill: colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.1)"),
          points: { show: false },
          paths: one.bars ? uPlot.paths.bars?.({ size: [0.7, 24] }) : undefined,
          value: (_, value) => (value === null ? "–" : shown ? shown(value) : String(value)),
        };
      }),
    ],
  };
}
