import { join } from "node:path";
import { expect, test } from "vitest";
import { nightlyFiles } from "../../../scripts/suites/stages.ts";

test("includes every test that requests the nightly run, also through a suite that several share", () => {
  const files = nightlyFiles(join(import.meta.dirname, "../../.."));
  expect(files).toEqual(
    expect.arrayContaining([
      "test/chaos/random-kills.test.ts",
      "test/contract/relay.test.ts",
      "test/contract/relay-alone.test.ts",
      "test/integration/billing/scopes.test.ts",
    ]),
  );
  expect(files).not.toContain("test/unit/scripts/nightly-files.test.ts");
});
