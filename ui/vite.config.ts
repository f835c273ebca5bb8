import { writeFileSync } from "node:fs";
import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

const DIST = "../crates/server/dist";

/** Lists what was built as a Rust array, which the server includes. */
function listed(): Plugin {
  return {
    name: "windlass-files",
    apply: "build",
    writeBundle(options, bundle) {
      const line = (name: string) => `    ("${name}", include_bytes!("${name}") as &[u8]),\n`;
      const names = Object.keys(bundle).sort();
      writeFileSync(join(options.dir ?? DIST, "files.rs"), `&[\n${names.map(line).join("")}]\n`);
    },
  };
}

/** The page stands at the root of the server that is used while it is written. */
function atRoot(): Plugin {
  return {
    name: "windlass-root",
    apply: "serve",
    transformIndexHtml: { order: "pre", handler: (html) => html.replaceAll('"./', '"/') },
  };
}

export default defineConfig(({ command }) => ({
  // Where the page stands is known when it is asked for: the server says so in index.html.
  base: command === "serve" ? "/" : "./",
  plugins: [react(), listed(), atRoot()],
  build: {
    outDir: DIST,
    emptyOutDir: true,
    target: "es2023",
    // The policy of the page lets nothing in that is written into HTML or CSS.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    license: { fileName: "assets/licences.md" },
    chunkSizeWarningLimit: 600,
  },
  server: { proxy: { "/api": process.env.WINDLASS_URL ?? "http://127.0.0.1:7171" } },
}));
