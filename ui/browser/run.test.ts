import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { aRun, ask, isAccessible, machine, picture, visit } from "./visit.ts";

const state = (page: Page) => page.locator(".state-pill");
const inDialog = (page: Page, name: string) => page.getByRole("dialog").getByRole("button", { name });

test("a failed run says why, at its head and at the step, and shows all of it", async () => {
  const id = await aRun(machine.busy, "key=ship-Vasa&state=failed");
  const page = await visit(`${machine.busy}runs/${id}`, { wide: true });
  await page.getByText("Failed: price[6]: crate 7 has no papers").waitFor();
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(6);
  await page.getByRole("button", { name: "Show the elements of price" }).click();
  await expect.poll(() => page.locator(".elements [data-state=failed]").count()).toBe(1);
  await picture(page, "run-graph");
  await page.getByRole("link", { name: "Look at price" }).click();
  await page.getByRole("region", { name: "Step price" }).waitFor();
  await picture(page, "run-step");
  await isAccessible(page);
  for (const tab of ["timeline", "steps", "events", "logs", "record"]) {
    await page.getByRole("tab", { name: tab }).click();
    await page.getByRole("tabpanel").waitFor();
    if (tab === "timeline") await page.getByRole("button", { name: "Elements of price" }).click();
    if (tab === "logs") {
      await page.getByText("reading the papers").waitFor();
      expect(await page.getByText("the scale did not settle").count()).toBeGreaterThan(0);
    }
    if (tab === "record") await page.getByRole("region", { name: "Input", exact: true }).waitFor();
    await picture(page, `run-${tab}`);
    await isAccessible(page);
  }
  expect(new URL(page.url()).search).toBe("?step=price&tab=record");
});

test("a failed run is retried, forked and discarded", async () => {
  const address = machine.empty;
  await ask(address, "runs", { workflow: "tide_table", input: null, tags: ["steer"] });
  const id = await aRun(address, "tag=steer&state=failed");
  const page = await visit(`${address}runs/${id}`);
  await page.getByRole("button", { name: "Retry" }).click();
  await inDialog(page, "Retry").click();
  await page.getByText("It was opened again.").waitFor();
  await page.getByText("2 times").waitFor();
  await expect.poll(() => state(page).innerText()).toContain("failed");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("button", { name: "Fork" }).click();
  await inDialog(page, "Start the fork").click();
  await page.getByText("Fork of").waitFor();
  await expect.poll(() => state(page).innerText()).toContain("failed");
  await page.getByRole("button", { name: "More actions" }).click();
  await page.getByRole("button", { name: "Discard" }).click();
  expect(await inDialog(page, "Discard").isDisabled()).toBe(true);
  await page.getByLabel("Why").fill("a test");
  await picture(page, "run-discard");
  await inDialog(page, "Discard").click();
  await expect.poll(() => page.url()).toMatch(/runs$/);
});

test("a run that waits for somebody says so, and goes on when it is approved", async () => {
  const address = machine.empty;
  await ask(address, "runs", { workflow: "berth", input: "Fram", key: "berth-Fram" });
  const id = await aRun(address, "key=berth-Fram&state=suspended");
  const page = await visit(`${address}runs/${id}`);
  await page.getByText("it waits for the event `approved`").waitFor();
  await picture(page, "run-waiting");
  await page.getByRole("button", { name: "Send approved" }).click();
  await page.getByLabel("What it carries").fill("{");
  expect(await inDialog(page, "Send").isDisabled()).toBe(true);
  await page.getByLabel("What it carries").fill('{"by": "Ada", "yes": true}');
  await picture(page, "run-send");
  await isAccessible(page);
  await inDialog(page, "Send").click();
  await page.getByText("approved was sent.").waitFor();
  // It is seen without a reload, with the run that it starts.
  await expect.poll(() => state(page).innerText(), { timeout: 30_000 }).toContain("completed");
  await picture(page, "run-flow");
  await page.getByRole("tab", { name: "timeline" }).click();
  await page.getByRole("link", { name: "The run of survey" }).click();
  await expect.poll(() => page.url()).not.toContain(id);
  await page.getByRole("link", { name: "survey" }).first().waitFor();
});

test("a run is paused, resumed, cancelled and terminated", async () => {
  const address = machine.empty;
  const open = async (ship: string) => {
    await ask(address, "runs", { workflow: "berth", input: ship, key: `berth-${ship}` });
    return visit(`${address}runs/${await aRun(address, `key=berth-${ship}&state=suspended`)}`);
  };
  const page = await open("Vega");
  await page.getByRole("button", { name: "Pause" }).click();
  await inDialog(page, "Pause").click();
  await expect.poll(() => state(page).innerText()).toContain("paused");
  await page.getByRole("button", { name: "Resume" }).click();
  await inDialog(page, "Resume").click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  await page.getByRole("button", { name: "Cancel" }).click();
  await page.getByLabel("Why").fill("the ship went elsewhere");
  await inDialog(page, "Cancel").click();
  await expect.poll(() => state(page).innerText(), { timeout: 15_000 }).toContain("cancelled");
  await page.getByText("the ship went elsewhere").waitFor();
  await picture(page, "run-cancelled");
  const other = await open("Maud");
  await other.getByRole("button", { name: "More actions" }).click();
  await other.getByRole("button", { name: "Terminate" }).click();
  await other.getByLabel("Why").fill("stuck");
  await inDialog(other, "Terminate").click();
  await expect.poll(() => state(other).innerText()).toContain("cancelled");
});

test("a run that nobody knows is explained", async () => {
  const page = await visit(`${machine.busy}runs/00000000-0000-7000-8000-000000000000`);
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("unknown_run");
  await picture(page, "run-unknown");
});

test("a machine is shown by its states", async () => {
  const id = await aRun(machine.busy, "workflow=captain&tag=north");
  const page = await visit(`${machine.busy}runs/${id}`);
  await expect.poll(() => page.locator(".react-flow__node").count()).toBe(5);
  await picture(page, "run-machine");
});
