import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst } from "rolldown/parseAst";
import { expect, test } from "vitest";
import { chooseTests } from "../../../scripts/suites/changed-tests.ts";
import { nightlyOnly, pathOfTest } from "../../../scripts/suites/nightly-only.ts";
import { nightlyFiles } from "../../../scripts/suites/schedule.ts";

const root = join(import.meta.dirname, "../../..");
const only = Object.keys(nightlyOnly);

test("includes every test that requests the nightly run, also through a suite that several share", () => {
  const files = nightlyFiles(root);
  expect(files).toEqual(
    expect.arrayContaining([
      "test/chaos/seeds/seeds.test.ts",
      "test/contract/relay.test.ts",
      "test/contract/relay-alone.test.ts",
      "test/integration/billing/scopes.test.ts",
      ...only.map(pathOfTest),
    ]),
  );
  expect(files).not.toContain("test/unit/scripts/nightly-files.test.ts");
});

test.each(Object.entries(nightlyOnly))("leaves tests that run at every change for %s", (name, others) => {
  expect(existsSync(join(root, pathOfTest(name)))).toBe(true);
  expect(others).not.toEqual([]);
  const missing = others.filter((one) => {
    const [file = "", ...title] = one.split(" > ");
    return only.includes(file) || !usualTitles(read(file)).has(title.join(" > "));
  });
  expect(missing).toEqual([]);
});

test("counts no test or suite that is skipped at every change", () => {
  const text = `
    const isHere = isNightly && hasProgram();
    describe("usual", () => { it("runs", fn); it.runIf(isNightly)("waits", fn); it.each(list)("repeats %s", fn); });
    describe.skipIf(!isHere)("nightly", () => { it("waits too", fn); });`;
  expect([...usualTitles(text)]).toEqual(["usual", "runs", "repeats %s"]);
});

test("runs none of them for an edit", () => {
  const [path = ""] = only.map(pathOfTest);
  expect(chooseTests(new Map([[path, 0]]))).toEqual({ run: new Map(), left: new Map([[path.split("/")[1], 1]]) });
});

function read(name: string): string {
  const path = join(root, pathOfTest(name));
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

/** Titles of the tests and suites in a test file's text whose conditions, and those around them, do not mention the night. */
function usualTitles(text: string): ReadonlySet<string> {
  const found = new Set<string>();
  const atNight = new Set(["isNightly"]);
  const textOf = ({ start, end }: Node) => text.slice(start, end);
  const mentionsNight = (node: Node) => [...atNight].some((name) => new RegExp(`\\b${name}\\b`).test(textOf(node)));
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const node = value as Node;
    if (node.type === "VariableDeclarator" && node.init && mentionsNight(node.init))
      atNight.add(textOf(node.id as Node));
    if (node.type === "CallExpression" && /^(it|test|describe)\b/.test(textOf(node.callee as Node))) {
      if (mentionsNight(node.callee as Node)) return;
      const [title] = node.arguments ?? [];
      if (typeof title?.value === "string") found.add(title.value);
    }
    for (const child of Object.values(value)) visit(child);
  };
  visit(parseAst(text, { lang: "ts" }));
  return found;
}

interface Node {
  readonly type: string;
  readonly start: number;
  readonly end: number;
  readonly id?: Node;
  readonly init?: Node | null;
  readonly callee?: Node;
  readonly arguments?: readonly Node[];
  readonly value?: unknown;
}
