import { expect, test } from "vitest";
import { isAccessible, machine, picture, visit } from "./visit.ts";

const enter = async (key: string) => {
  const page = await visit(machine.locked);
  await page.getByLabel("API key").fill(key);
  await page.getByRole("button", { name: "Log in" }).click();
  return page;
};

test("nobody sees anything without a key, and a wrong one is refused in words", async () => {
  const page = await visit(`${machine.locked}runs`);
  await page.getByLabel("API key").waitFor();
  await picture(page, "door");
  await isAccessible(page);
  expect(await page.locator("[data-run]").count()).toBe(0);
  await page.getByLabel("API key").fill("windlass_wrong");
  await page.getByRole("button", { name: "Log in" }).click();
  await expect.poll(() => page.getByRole("alert").innerText()).toContain("not known here");
});

test("an admin comes in, stays in after a reload, sees who changed what, and goes out again", async () => {
  const page = await enter(machine.admin);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByText("admin").first().waitFor();
  await page.reload();
  await page.getByRole("link", { name: "Audit" }).click();
  await page.getByText("log in").first().waitFor();
  await picture(page, "audit-admin");
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("API key").waitFor();
});

test("a viewer sees all and is offered nothing that changes it", async () => {
  const page = await enter(machine.viewer);
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await expect.poll(() => page.getByRole("link", { name: "Audit" }).count()).toBe(0);
  await page.getByRole("link", { name: "Runs", exact: true }).click();
  await page.locator("[data-run]").first().waitFor();
  expect(await page.getByRole("checkbox").count()).toBe(0);
  await page.locator("[data-run]").first().click();
  await page.locator(".state-pill").waitFor();
  await picture(page, "run-viewer");
  for (const name of ["Retry", "Cancel", "Pause", "More actions"])
    expect(await page.getByRole("button", { name }).count(), name).toBe(0);
});
