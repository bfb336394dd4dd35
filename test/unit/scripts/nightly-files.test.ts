import { join } from "node:path";
import { expect, test } from "vitest";
import { nightlyFiles } from "../../../scripts/suites/nightly-files.ts";

test("the nightly run knows every test that asks for it, also through a suite that several share", () => {
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
