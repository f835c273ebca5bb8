import { expect, test } from "vitest";
import { aRun, ask, isAccessible, machine, picture, visit } from "./visit.ts";

test("filters are completed, stand in the address, and are there after a reload", async () => {
  const page = await visit(`${machine.busy}runs`);
  await page.locator("[data-run]").first().waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("work");
  await page.keyboard.press("Enter");
  await page.keyboard.type("mani");
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Failed" }).click();
  await expect.poll(() => new URL(page.url()).search).toBe("?workflow=manifest&state=failed");
  await page.getByRole("link", { name: "manifest" }).first().waitFor();
  await picture(page, "runs-filtered");
  await page.reload();
  await page.getByRole("button", { name: "Remove workflow manifest" }).waitFor();
  expect(await page.getByRole("button", { name: "Failed" }).getAttribute("aria-pressed")).toBe("true");
  const rows = await page.locator(".all [role=row]").allInnerTexts();
  expect(rows.length).toBeGreaterThan(0);
  expect(rows.every((row) => row.includes("failed") && row.includes("manifest"))).toBe(true);
  await isAccessible(page);
});

test("a filter that nothing fits says so, and leads back", async () => {
  const page = await visit(`${machine.busy}runs?tag=nobody`);
  await page.getByRole("heading", { name: "No run fits" }).waitFor();
  await picture(page, "runs-none-fit");
  await page.getByRole("button", { name: "Forget the conditions" }).click();
  await page.locator("[data-run]").first().waitFor();
});

test("a condition that cannot be meant is explained by the server", async () => {
  const page = await visit(`${machine.busy}runs?since=yesterday`);
  await expect.poll(() => page.getByRole("alert").first().innerText()).toContain("yesterday");
});

test("the list is live, and holds still under a pointer", async () => {
  const page = await visit(`${machine.empty}runs?tag=live`);
  await page.getByRole("heading", { name: "No run fits" }).waitFor();
  const start = () => ask(machine.empty, "runs", { workflow: "signal", input: 1, tags: ["live"] });
  await start();
  await expect.poll(() => page.locator("[data-run]").count(), { timeout: 15_000 }).toBe(1);
  await page.locator(".runs").hover();
  await start();
  await page.getByRole("button", { name: "1 new" }).waitFor();
  expect(await page.locator("[data-run]").count()).toBe(1);
  await page.getByRole("button", { name: "1 new" }).click();
  await expect.poll(() => page.locator("[data-run]").count()).toBe(2);
});

test("a hundred thousand runs are scrolled, counted and searched", { timeout: 120_000 }, async () => {
  const page = await visit(`${machine.full}runs`);
  await page.locator("[data-run]").first().waitFor();
  const tab = page.getByRole("button", { name: "Completed" });
  // Where there are many they are estimated.
  await expect.poll(() => tab.innerText()).toMatch(/(\d,\d{3}|K)\+/);
  const list = page.locator(".runs");
  const height = () => list.evaluate((runs) => runs.scrollHeight);
  for (let rows = 1_000; rows <= 10_000; rows += 1_000) {
    // To the end of what is there, as fast as more of it comes.
    await expect
      .poll(
        async () => {
          await list.evaluate((runs) => runs.scrollTo({ top: runs.scrollHeight }));
          return height();
        },
        { timeout: 20_000, interval: 20 },
      )
      .toBeGreaterThan(rows * 38);
  }
  expect(await page.locator(".all [role=row]").count()).toBeLessThan(100);
  await page.locator("[data-run]").first().waitFor();
  await picture(page, "runs-many");
  await page.goto(`${machine.full}runs?tag=past&state=completed`);
  await page.locator("[data-run]").first().waitFor();
  // Where nothing fits, the search does not go on for ever by itself.
  await page.goto(`${machine.full}runs?tag=past&state=failed`);
  await page.getByText("Looked back to").waitFor();
  await picture(page, "runs-waits");
  await isAccessible(page);
  const none = page.getByRole("heading", { name: "No run fits" });
  const goOn = page.getByRole("button", { name: "Go on" });
  await expect
    .poll(
      async () => {
        if (await goOn.isVisible()) await goOn.click();
        return none.isVisible();
      },
      { timeout: 30_000 },
    )
    .toBe(true);
});

test("chosen runs are retried, and the whole filter is counted before it is discarded", async () => {
  const address = machine.empty;
  for (let count = 0; count < 3; count++)
    await ask(address, "runs", { workflow: "tide_table", input: null, tags: ["bulk"] });
  const page = await visit(`${address}runs?tag=bulk&state=failed`);
  await expect.poll(() => page.locator("[data-run]").count(), { timeout: 15_000 }).toBe(3);
  for (const box of await page.getByRole("checkbox").all()) await box.check();
  await page.getByRole("button", { name: "Retry" }).click();
  await picture(page, "runs-bulk");
  await page.getByRole("dialog").getByRole("button", { name: "Retry" }).click();
  await page.getByText("3 opened again").waitFor();
  await expect
    .poll(
      async () =>
        (await ask<{ runs: { generation: number; state: string }[] }>(address, "runs?tag=bulk")).runs.filter(
          (run) => run.generation === 2 && run.state === "failed",
        ).length,
      { timeout: 15_000 },
    )
    .toBe(3);
  await page.reload();
  await page.getByRole("checkbox").first().check();
  await page.getByRole("button", { name: "all that fit the filter" }).click();
  await page.getByRole("button", { name: "Discard" }).click();
  await expect.poll(() => page.locator("[data-dry-run]").innerText()).toBe("3 runs");
  await page.getByLabel("Why").fill("a test");
  await isAccessible(page);
  await page.getByRole("button", { name: "Discard 3 runs" }).click();
  await page.getByText("3 forgotten").waitFor();
  await page.getByRole("heading", { name: "No run fits" }).waitFor();
});

test("a run is found by the keyboard alone", async () => {
  const id = await aRun(machine.busy, "key=ship-Vasa");
  const page = await visit(machine.busy);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.keyboard.press("Control+k");
  await page.getByRole("dialog", { name: "Go to" }).waitFor();
  await page.keyboard.type(id);
  await picture(page, "palette");
  await page.keyboard.press("Enter");
  await expect.poll(() => page.url()).toContain(`/runs/${id}`);
  await page.keyboard.press("g");
  await page.keyboard.press("q");
  await expect.poll(() => page.url()).toMatch(/queues$/);
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await isAccessible(page);
});
