/** A visit to the page, in a browser of one's own. */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { type Browser, type BrowserContext, chromium, type Page } from "playwright-core";
import { afterAll, afterEach, beforeAll, expect, inject } from "vitest";
import { PICTURES } from "./machine.ts";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const machine = inject("machine");
let browser: Browser;
let context: BrowserContext | undefined;
let complaints: string[] = [];

beforeAll(async () => {
  browser = await chromium.connect(machine.browser);
});
afterAll(() => browser.close());
afterEach(async () => {
  await context?.close();
  context = undefined;
  const heard = complaints;
  complaints = [];
  expect(heard, "what the browser complained of").toEqual([]);
});

export interface Look {
  dark?: boolean;
  narrow?: boolean;
  wide?: boolean;
  /** Whether a refusal of the server is what is looked at. */
  refused?: boolean;
}

/** Opens a page in a fresh browser. Whatever it complains of fails the test: errors, and what its policy refuses. */
export async function visit(address: string, look: Look = {}): Promise<Page> {
  await context?.close();
  const width = look.narrow ? 390 : look.wide ? 1600 : 1280;
  context = await browser.newContext({
    viewport: { width, height: look.narrow ? 844 : 900 },
    colorScheme: look.dark ? "dark" : "light",
    reducedMotion: "reduce",
  });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    const text = message.text();
    // A refusal of the server is logged by the browser itself; what the page makes of it is seen on the page.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) complaints.push(text);
  });
  await page.goto(address);
  return page;
}

/** Keeps a picture of what is seen. */
export async function picture(page: Page, name: string): Promise<void> {
  await page.screenshot({ path: join(PICTURES, `${name}.png`) });
}

interface Finding {
  id: string;
  impact: string | null;
  nodes: { html: string; failureSummary?: string }[];
}

/** What keeps people from using the page: nothing serious. */
export async function isAccessible(page: Page): Promise<void> {
  // Run as the browser's own tools run: the page's policy lets nothing in, and that is right.
  await page.evaluate(AXE);
  const found = await page.evaluate(async () => {
    const { axe } = globalThis as unknown as {
      axe: { run: (options: object) => Promise<{ violations: Finding[] }> };
    };
    const { violations } = await axe.run({ resultTypes: ["violations"] });
    return violations.map(({ id, impact, nodes }) => ({
      id,
      impact,
      nodes: nodes
        .slice(0, 3)
        .map(({ html, failureSummary }) => ({ html: html.slice(0, 200), failureSummary })),
    }));
  });
  const serious = found.filter((one) => one.impact === "serious" || one.impact === "critical");
  expect(serious, JSON.stringify(serious, null, 1)).toEqual([]);
}

/** Asks the API as a program would. */
export async function ask<T>(address: string, path: string, body?: unknown): Promise<T> {
  const answer = await fetch(`${address}api/v1/${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body),
  });
  expect(answer.ok, `${path}: ${answer.status}`).toBe(true);
  const text = await answer.text();
  return text === "" ? (null as T) : JSON.parse(text);
}

interface Some {
  runs: { id: string; state: string; key: string | null }[];
}

/** A run that fits, once there is one. */
export async function aRun(address: string, query: string): Promise<string> {
  return expect
    .poll(async () => (await ask<Some>(address, `runs?${query}`)).runs[0]?.id, { timeout: 30_000 })
    .toBeTruthy()
    .then(async () => (await ask<Some>(address, `runs?${query}`)).runs[0]!.id);
}
