/** The servers and the browser that all tests use. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import type { TestProject } from "vitest/node";

const TARGET = process.env.WINDLASS_TARGET ?? join(import.meta.dirname, "../../target");
export const PICTURES = join(TARGET, "page-pictures");
const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--no-first-run",
];

/** What each server has to show: work of every kind, nothing, very much, and work behind a door that wants keys. */
const HARBOURS = {
  busy: ["--prefix", "/ops/windlass"],
  empty: ["--empty"],
  fresh: ["--empty"],
  full: ["--runs", "1000", "--past", "100000", "--still"],
  locked: ["--keys"],
} as const;

export interface Addresses extends Record<keyof typeof HARBOURS, string> {
  browser: string;
  admin: string;
  viewer: string;
}

declare module "vitest" {
  export interface ProvidedContext {
    machine: Addresses;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  mkdirSync(PICTURES, { recursive: true });
  const children: ChildProcess[] = [];
  const said = await Promise.all(Object.values(HARBOURS).map((flags) => harbour(flags, children)));
  const [busy, empty, fresh, full, locked] = said as [string[], string[], string[], string[], string[]];
  const browser = await chromium.launchServer({
    executablePath: process.env.WINDLASS_CHROMIUM ?? "chromium",
    args: FLAGS,
  });
  const keys = Object.fromEntries(
    locked.filter((line) => line.startsWith("key ")).map((line) => line.split(" ").slice(1)),
  );
  project.provide("machine", {
    busy: busy[0]!,
    empty: empty[0]!,
    fresh: fresh[0]!,
    full: full[0]!,
    locked: locked[0]!,
    browser: browser.wsEndpoint(),
    admin: keys.admin ?? "",
    viewer: keys.viewer ?? "",
  });
  return async () => {
    await browser.close();
    for (const child of children) child.kill();
  };
}

/** Starts a server, and gives what it has said when it is ready. */
async function harbour(flags: readonly string[], children: ChildProcess[]): Promise<string[]> {
  const program = join(TARGET, "debug/examples/harbour");
  const child = spawn(program, flags, { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  const lines: string[] = [];
  for await (const line of createInterface({ input: child.stdout! })) {
    lines.push(line);
    if (line === "ready") {
      child.stdout!.resume();
      return lines;
    }
  }
  throw new Error(`${program} ${flags.join(" ")} ended before it was ready`);
}
