import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    environment: "node",
    include: ["browser/**/*.test.ts"],
    globalSetup: ["browser/machine.ts"],
    // One browser and one server of each kind for all of them.
    fileParallelism: false,
    testTimeout: 60_000,
    hookTimeout: 120_000,
  },
});
