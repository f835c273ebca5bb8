import { expect, test } from "vitest";
import { aRun, isAccessible, machine, picture, visit } from "./visit.ts";

const VIEWS = [
  ["overview", "", "Overview"],
  ["runs", "runs", "Runs"],
  ["workflows", "workflows", "Workflows"],
  ["workflow", "workflows/manifest", "manifest"],
  ["workflow-runs", "workflows/signal?tab=latest+runs", "signal"],
  ["workflow-statistics", "workflows/signal?tab=statistics", "signal"],
  ["schedules", "schedules", "Schedules"],
  ["schedule", "schedules/nightly", "nightly"],
  ["triggers", "triggers", "Triggers"],
  ["queues", "queues", "Queues"],
  ["nodes", "nodes", "Nodes"],
  ["health", "health", "Health"],
  ["audit", "audit", "Audit"],
] as const;

const LOOKS = {
  light: {},
  dark: { dark: true },
  narrow: { narrow: true },
  "narrow-dark": { narrow: true, dark: true },
  wide: { wide: true },
} as const;

for (const [look, how] of Object.entries(LOOKS)) {
  test(`every view stands, ${look}`, { timeout: 180_000 }, async () => {
    const id = await aRun(machine.busy, "key=ship-Vasa");
    const page = await visit(machine.busy, how);
    for (const [name, path, title] of [...VIEWS, ["run", `runs/${id}`, "manifest"] as const]) {
      await page.goto(machine.busy + path);
      await page.getByRole("heading", { level: 1 }).filter({ hasText: title }).waitFor();
      await page.waitForLoadState("load");
      await page.waitForFunction(() => !document.querySelector("[aria-busy=true], .loading"));
      await picture(page, `${name}-${look}`);
      await isAccessible(page);
      // Nothing sticks out at the side.
      expect(
        await page.evaluate(() => document.documentElement.scrollWidth - innerWidth),
        name,
      ).toBeLessThanOrEqual(0);
    }
  });
}

test("every list that is empty says what to do", async () => {
  for (const view of ["runs", "schedules", "triggers", "queues", "audit"]) {
    const page = await visit(machine.fresh + view);
    await page.locator(".empty p").first().waitFor();
    expect((await page.locator(".empty").innerText()).length).toBeGreaterThan(40);
    await picture(page, `${view}-empty`);
    await isAccessible(page);
  }
});

test("an address without a view leads back", async () => {
  const page = await visit(`${machine.busy}a/b/c`);
  await page.getByRole("heading", { name: "Nothing is here" }).waitFor();
  await page.getByRole("link", { name: "All runs" }).click();
  await expect.poll(() => page.url()).toBe(`${machine.busy}runs`);
});

test("the colours are those that are chosen, also after a reload", async () => {
  const page = await visit(machine.busy, { dark: true });
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await expect.poll(paper).toBe("rgb(15, 19, 23)");
  await page.getByRole("radio", { name: "Light" }).click();
  await expect.poll(paper).toBe("rgb(246, 245, 241)");
  await page.reload();
  await expect.poll(paper).toBe("rgb(246, 245, 241)");
});

test("on a narrow screen the menu opens, leads on, and closes", async () => {
  const page = await visit(machine.busy, { narrow: true });
  await page.getByRole("button", { name: "Menu" }).click();
  await picture(page, "menu-narrow");
  await page.getByRole("link", { name: "Queues", exact: true }).click();
  await page.getByRole("heading", { level: 1, name: "Queues" }).waitFor();
  await expect.poll(() => page.locator(".side").isVisible()).toBe(false);
});

test("figures and charts move while one looks", async () => {
  const page = await visit(machine.busy);
  await page.locator(".u-wrap").first().waitFor();
  const figures = () => page.locator(".tiles").innerText();
  const before = await figures();
  await expect.poll(figures, { timeout: 30_000 }).not.toBe(before);
});
