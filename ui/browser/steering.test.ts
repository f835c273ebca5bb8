import { expect, test } from "vitest";
import { ask, isAccessible, machine, picture, visit } from "./visit.ts";

test("a run is started from JSON, and seen at once", async () => {
  const page = await visit(`${machine.empty}workflows/captain`);
  await page.getByRole("button", { name: "Start a run" }).click();
  await page.getByLabel("Input").fill('{"cargo": 950, ');
  const start = page.getByRole("dialog").getByRole("button", { name: "Start", exact: true });
  expect(await start.isDisabled()).toBe(true);
  await page.getByLabel("Input").fill('{"cargo": 950}');
  await page.getByText("Key, queue, tags and delay").click();
  await page.getByRole("textbox", { name: "Key" }).fill("cargo-950");
  await page.getByLabel("Tags").fill("arctic, west");
  await picture(page, "start-run");
  await start.click();
  await expect.poll(() => page.url()).toContain("/runs/0");
  await expect
    .poll(() => page.locator(".state-pill").innerText(), { timeout: 30_000 })
    .toContain("completed");
});

test("a run is started from a form, where its workflow says what it wants", async () => {
  const page = await visit(`${machine.empty}workflows/manifest`);
  await page.getByRole("button", { name: "Start a run" }).click();
  const form = page.getByRole("dialog");
  await form.getByLabel("name").fill("Gjøa");
  await form.getByLabel("crates").fill("0");
  await form.getByRole("button", { name: "Start", exact: true }).click();
  // A ship without crates has no manifest: the form says so, and asks nobody.
  expect(
    await form.getByLabel("crates").evaluate((field: HTMLInputElement) => field.validity.rangeUnderflow),
  ).toBe(true);
  await form.getByLabel("crates").fill("3");
  await form.getByLabel("rig").selectOption("steam");
  for (const [index, mark] of ["fragile", "north"].entries()) {
    await form.getByRole("button", { name: "Add one" }).click();
    await form.getByLabel(`marks ${index + 1}`, { exact: true }).fill(mark);
  }
  await form.getByRole("button", { name: "Remove marks 1" }).click();
  await form.getByRole("checkbox", { name: "pilot" }).check();
  await form.getByRole("textbox", { name: "pilot" }).fill("Ada");
  await picture(page, "start-form");
  await isAccessible(page);
  await form.getByRole("button", { name: "Start", exact: true }).click();
  await expect.poll(() => page.url()).toContain("/runs/0");
  const id = new URL(page.url()).pathname.split("/").at(-1);
  const { input } = await ask<{ input: object }>(machine.empty, `runs/${id}/document`);
  expect(input).toEqual({ name: "Gjøa", crates: 3, rig: "steam", marks: ["north"], pilot: "Ada" });
});

test("a schedule is run now, paused with a reason, resumed, and backfilled after a dry run", async () => {
  const page = await visit(`${machine.busy}schedules/nightly`);
  const history = () => page.locator(".card", { hasText: "History" }).innerText();
  await page.getByRole("button", { name: "Run now" }).click();
  await page.getByText("is on its way").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel("Why").fill("the yard is closed");
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await page.getByRole("button", { name: "Resume" }).waitFor();
  await page.getByText("the yard is closed").first().waitFor();
  await picture(page, "schedule-paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  expect((await history()).length).toBeGreaterThan(20);
  await page.getByRole("button", { name: "Backfill" }).click();
  await page.getByLabel("From").fill("2026-01-05T00:00");
  await page.getByLabel("To, not included").fill("2026-01-10T00:00");
  await expect.poll(() => page.locator("[data-dry-run]").innerText()).toMatch(/^5\s+times fall/);
  await picture(page, "schedule-backfill");
  await page.getByRole("button", { name: "Start 5 runs" }).click();
  await page.getByText("5 runs of nightly are wished for.").waitFor();
});

test("a schedule that has stopped says why, and is reset", async () => {
  const page = await visit(`${machine.busy}schedules`);
  const row = page.getByRole("row").filter({ hasText: "tides" });
  await expect.poll(() => row.innerText(), { timeout: 30_000 }).toContain("connection refused");
  await row.getByRole("button", { name: "Reset" }).click();
  await page.getByText("tides begins anew.").waitFor();
});

test("a trigger is asked, paused and resumed", async () => {
  const page = await visit(`${machine.busy}triggers`);
  await page.getByRole("button", { name: "Ask now" }).click();
  await page.getByText("lighthouse is asked.").waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel("Why").fill("no fog in summer");
  await page.getByRole("dialog").getByRole("button", { name: "Pause" }).click();
  await page.getByText("no fog in summer").waitFor();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
});

test("limits of a queue are changed, and it is paused and resumed", async () => {
  const page = await visit(`${machine.busy}queues`);
  const card = page.getByRole("region", { name: "Queue cranes" });
  await card.getByRole("button", { name: "Limits of cranes" }).click();
  await page.getByLabel("At once").fill("3");
  await page.getByLabel("Rate: how many").fill("");
  await picture(page, "queue-limits");
  await page.getByRole("button", { name: "Save" }).click();
  await card.getByText("3 at once").waitFor();
  const [cranes] = (await ask<{ queues: { name: string; limits: object }[] }>(machine.busy, "queues")).queues;
  expect(cranes).toMatchObject({ name: "cranes", limits: { concurrency: 3, rate: null } });
  await card.getByRole("button", { name: "Pause" }).click();
  await card.getByText("paused").waitFor();
  await card.getByRole("button", { name: "Resume" }).click();
  await card.getByRole("button", { name: "Pause" }).waitFor();
});

test("what is wrong is said, and leads to where it is put right", async () => {
  const page = await visit(`${machine.full}health`);
  const link = page.getByRole("link", { name: "Look at tides" });
  await link.waitFor({ timeout: 30_000 });
  await link.click();
  await expect.poll(() => page.url()).toMatch(/schedules\/tides$/);
});
