import "./styles/tokens.css";
import "./styles/base.css";
import "./styles/parts.css";
import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Trouble } from "./api/client.ts";
import { router } from "./routes.tsx";
import { applyTheme, chosenTheme } from "./shell/theme.ts";

applyTheme(chosenTheme());

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 1_000,
      refetchOnWindowFocus: true,
      retry: (times, why) => !(why instanceof Trouble && why.status >= 400 && why.status < 500) && times < 2,
      retryDelay: 1_000,
    },
  },
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={queries}>
      <RouterProvider router={router} />
    </QueryClientProvider>
  </StrictMode>,
);
