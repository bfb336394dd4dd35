import { existsSync, globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseAst } from "rolldown/parseAst";
import { expect, test } from "vitest";
import { chooseTests } from "../../../scripts/suites/changed-tests.ts";
import {
  counterpartsOf,
  nightlyOnly,
  nightlyTests,
  pathOfTest,
  provenAtNight,
} from "../../../scripts/suites/nightly-only.ts";
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

test.each(Object.entries({ ...nightlyOnly, ...nightlyTests }))(
  "leaves tests that run at every change for %s, or says what is not proven",
  (name, entry) => {
    expect(existsSync(join(root, pathOfTest(fileOf(name))))).toBe(true);
    if ("notProven" in entry) expect(entry.notProven).toMatch(/\w.*: \w/);
    else expect(entry).not.toEqual([]);
    const missing = counterpartsOf(entry).filter(
      (one) => only.includes(fileOf(one)) || !titles(read(fileOf(one))).usual.has(titleOf(one)),
    );
    expect(missing).toEqual([]);
  },
);

test("reports what only the nightly run proves, with the file that proves it", () => {
  const entries = {
    "e2e/whole": ["unit/other > holds"],
    "e2e/part": { tests: ["unit/other > holds"], notProven: "the real program: nothing here installs it" },
    "e2e/file > a kill": { tests: [], notProven: "a kill: takes minutes" },
  };
  expect(provenAtNight(entries)).toEqual([
    "e2e/part: the real program: nothing here installs it",
    "e2e/file: a kill: takes minutes",
  ]);
});

test("lists every test of other files that only the nightly run runs", () => {
  const files = globSync("test/**/*.test.ts", { cwd: root })
    .map((path) => path.slice("test/".length, -".test.ts".length))
    .filter((name) => !only.includes(name) && read(name).includes("isNightly"));
  const found = files.flatMap((name) => [...titles(read(name)).nightly].map((title) => `${name} > ${title}`));
  expect(found.toSorted()).toEqual(Object.keys(nightlyTests).toSorted());
});

test("tells tests and suites of every change from those of the night", () => {
  const text = `
    const isHere = isNightly && hasProgram();
    describe("usual", () => { it("runs", fn); it.runIf(isNightly)("waits", fn); it.each(list)("repeats %s", fn); });
    describe.skipIf(!isHere)("nightly", () => { it("waits too", fn); });`;
  const { usual, nightly } = titles(text);
  expect([...usual]).toEqual(["usual", "runs", "repeats %s"]);
  expect([...nightly]).toEqual(["waits", "nightly"]);
});

test("runs none of them for an edit", () => {
  const [path = ""] = only.map(pathOfTest);
  expect(chooseTests(new Map([[path, 0]]))).toEqual({ run: new Map(), left: new Map([[path.split("/")[1], 1]]) });
});

function read(name: string): string {
  const path = join(root, pathOfTest(name));
  return existsSync(path) ? readFileSync(path, "utf8") : "";
}

const fileOf = (name: string): string => name.split(" > ")[0] ?? "";
const titleOf = (name: string): string => name.split(" > ").slice(1).join(" > ");

interface Titles {
  /** Those whose conditions, and those around them, do not mention the night. */
  readonly usual: ReadonlySet<string>;
  /** The outermost whose conditions mention it. */
  readonly nightly: ReadonlySet<string>;
}

/** Titles of the tests and suites in a test file's text. */
function titles(text: string): Titles {
  const usual = new Set<string>();
  const nightly = new Set<string>();
  const atNight = new Set(["isNightly"]);
  const textOf = ({ start, end }: Node) => text.slice(start, end);
  const mentionsNight = (node: Node) => [...atNight].some((name) => new RegExp(`\\b${name}\\b`).test(textOf(node)));
  const visit = (value: unknown): void => {
    if (typeof value !== "object" || value === null) return;
    const node = value as Node;
    if (node.type === "VariableDeclarator" && node.init && mentionsNight(node.init))
      atNight.add(textOf(node.id as Node));
    if (node.type === "CallExpression" && /^(it|test|describe)\b/.test(textOf(node.callee as Node))) {
      const isAtNight = mentionsNight(node.callee as Node);
      const [title] = node.arguments ?? [];
      if (typeof title?.value === "string") (isAtNight ? nightly : usual).add(title.value);
      if (isAtNight) return;
    }
    for (const child of Object.values(value)) visit(child);
  };
  visit(parseAst(text, { lang: "ts" }));
  return { usual, nightly };
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
