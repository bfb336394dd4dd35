import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { chooseTests } from "../../../scripts/suites/changed-tests.ts";
import { nightlyOnly, pathOfTest } from "../../../scripts/suites/nightly-only.ts";
import { nightlyFiles } from "../../../scripts/suites/stages.ts";

const root = join(import.meta.dirname, "../../..");
const only = Object.keys(nightlyOnly);

test("includes every test that requests the nightly run, also through a suite that several share", () => {
  const files = nightlyFiles(root);
  expect(files).toEqual(
    expect.arrayContaining([
      "test/chaos/random-kills.test.ts",
      "test/contract/relay.test.ts",
      "test/contract/relay-alone.test.ts",
      "test/integration/billing/scopes.test.ts",
      ...only.map(pathOfTest),
    ]),
  );
  expect(files).not.toContain("test/unit/scripts/nightly-files.test.ts");
});

test.each(Object.entries(nightlyOnly))("leaves tests that exist and run at every change for %s", (name, others) => {
  expect([name, ...others].filter((one) => !existsSync(join(root, pathOfTest(one))))).toEqual([]);
  expect(others).not.toEqual([]);
  expect(others.filter((one) => only.includes(one))).toEqual([]);
});

test("runs none of them for an edit", () => {
  const [path = ""] = only.map(pathOfTest);
  expect(chooseTests(new Map([[path, 0]]))).toEqual({ run: new Map(), left: new Map([[path.split("/")[1], 1]]) });
});
