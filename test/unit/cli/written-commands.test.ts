// Commands that the console, the documents and messages tell people to type: each of them is there, with the options it names.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { describe, expect, it } from "vitest";
import { commandsOfPaths } from "../../../cli/command-of-path.ts";
import { createProgram } from "../../../cli/program.ts";

const root = join(import.meta.dirname, "../../..");
const program = createProgram("0.0.0");

/** What follows `stoker` wherever `form` finds it, by where it stands. */
function written(files: readonly string[], form: RegExp): readonly (readonly [where: string, text: string])[] {
  return files.flatMap((file) => {
    const found = [...readFileSync(join(root, file), "utf8").matchAll(form)];
    return found.map(([, text = ""]) => [file, text] as const);
  });
}

const isAlternative = (word: string) => /^[a-z-]+(\|[a-z-]+)+$/.test(word);
const longAndShort = (command: Command | null): readonly (string | undefined)[] =>
  command ? [...command.options.flatMap(({ long, short }) => [long, short]), ...longAndShort(command.parent)] : [];

/** `isWhole`: it is to be typed as it stands, so that nothing may be missing either. */
function faultOf(text: string, isWhole: boolean): string | undefined {
  // What a template fills in is a word; a condition in it begins where the certain part ends.
  const [certain = ""] = text.replaceAll(/\$\{(?:[^}&?]|\?\?|\?\.)*\}/g, "X").split("${");
  // What follows a pipe is another program.
  const words = (certain.split(" | ")[0] ?? "").trim().split(/\s+/);
  let at: Command = program;
  while (at.commands.length > 0) {
    const word = words[0]?.replace(/[,.;:)]$/, "");
    if (word === undefined || !/^[a-z]/.test(word)) return undefined;
    // Old names still work, but nothing names them.
    const visible: readonly Command[] = at.createHelp().visibleCommands(at);
    const named = (name: string) => visible.find((one) => one.name() === name);
    if (isAlternative(word)) return word.split("|").every(named) ? undefined : `no command ${word}`;
    // `stoker deploy owner/name`
    const model =
      word.includes("/") && at.name() === "deploy" ? at.commands.find((one) => one.name() === "model") : undefined;
    const next = model ?? named(word);
    if (!next) return `no command ${word}`;
    if (next === model) words.unshift(word);
    words.shift();
    at = next;
  }
  const options = words.flatMap((word) => /^\[?(--?[a-z][\w-]*)/.exec(word)?.[1] ?? []);
  const known = [...longAndShort(at), "--help"];
  const unknown = options.find((option) => !known.includes(option));
  if (unknown !== undefined) return `no option ${unknown}`;
  const begin = words.findIndex((word) => /^\[?-/.test(word));
  const given = words.slice(0, begin < 0 ? words.length : begin).filter((word) => /^[\w$<{./]/.test(word));
  const isVariadic = at.registeredArguments.some(({ variadic }) => variadic);
  if (!isVariadic && given.length > at.registeredArguments.length) return `takes no ${given.at(-1)}`;
  if (!isWhole) return undefined;
  const missing = at.options.find(({ mandatory, long }) => mandatory && !options.includes(long ?? ""));
  if (missing) return `needs ${missing.long}`;
  if (given.length < at.registeredArguments.filter(({ required }) => required).length) return "needs an argument";
  return undefined;
}

const faultsIn = (all: readonly (readonly [string, string])[], isWhole: boolean): readonly string[] =>
  all.flatMap(([where, text]) => {
    const fault = faultOf(text, isWhole);
    return fault === undefined ? [] : [`${where}: stoker ${text}: ${fault}`];
  });

describe("a documented command", () => {
  it("works as written in the console", () => {
    const found = written(
      globSync("console/**/*.{ts,tsx}", { cwd: root }),
      /stoker ([a-z](?:\$\{[^}`]*\}|[^`<"\n])*)/g,
    );
    expect(found.length).toBeGreaterThan(20);
    // It adds options to the command that it names.
    const isStart = ([file]: (typeof found)[number]) => file === "console/domain/aliases.ts";
    expect(
      faultsIn(
        found.filter((one) => !isStart(one)),
        true,
      ),
    ).toEqual([]);
    expect(faultsIn(found.filter(isStart), false)).toEqual([]);
  });

  it("exists if a document names it", () => {
    const files = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", ...globSync("docs/**/*.md", { cwd: root })];
    const found = [
      ...written(files, /`(?:npx )?stoker ([a-z][^`]*)`/g),
      ...written(files, /^ *(?:npx )?stoker ([a-z][^#\n]*)/gm),
    ];
    expect(found.length).toBeGreaterThan(60);
    expect(faultsIn(found, false)).toEqual([]);
  });

  it("exists if a message names it", () => {
    const files = ["cli", "control-plane", "agent"].flatMap((folder) => globSync(`${folder}/**/*.ts`, { cwd: root }));
    const found = written(files, /`stoker ([a-z][^`\\]*)\\?`/g);
    expect(found.length).toBeGreaterThan(10);
    expect(faultsIn(found, false)).toEqual([]);
  });

  it("exists for a path of the API and calls that path", () => {
    const commands = Object.values(commandsOfPaths).filter((command) => command !== "");
    expect(
      faultsIn(
        commands.map((command) => ["a path", command.slice("stoker ".length)]),
        false,
      ),
    ).toEqual([]);
    const { paths } = JSON.parse(readFileSync(join(root, "docs/openapi.json"), "utf8")) as { paths: object };
    const bare = (path: string) => path.replaceAll(/\{\w+\}/g, "{}");
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${bare(path)}`),
    );
    expect(Object.keys(commandsOfPaths).filter((call) => !operations.includes(bare(call)))).toEqual([]);
  });

  it.each([
    ["webhook secrets", "no command secrets"],
    ["batch cancel", "needs an argument"],
    ["batch cancel a b", "takes no b"],
    ["model list --visible", "no option --visible"],
    ["token mint", "needs --key"],
    ["token create|drop", "no command create|drop"],
  ])("is found if it is wrong: %s", (text, fault) => expect(faultOf(text, true)).toBe(fault));
});

it.each([
  "deploy info",
  "log",
  "node remove",
  "admin account show",
  "admin discount give",
  "model meta",
  "model publicity",
  "model alias set",
  "lora status",
  "voice edit",
  "file upload",
  "batch status",
  "token jwt inspect",
  "limit show",
])("is still found by its old name: %s", (path) => {
  const found = path
    .split(" ")
    .reduce<Command | undefined>(
      (at, word) => at?.commands.find((one) => [one.name(), ...one.aliases()].includes(word)),
      program,
    );
  expect(found?.commands).toEqual([]);
});

/** Every command below `one`, with itself. */
const allBelow = (one: Command): readonly Command[] => [one, ...one.commands.flatMap(allBelow)];

it("shows default times as durations", () => {
  const times = allBelow(program).flatMap(({ options }) => options.filter(({ flags }) => flags.includes("<time>")));
  const withDefault = times.filter(({ defaultValue }) => typeof defaultValue === "number");
  expect(withDefault.length).toBeGreaterThan(3);
  for (const { defaultValueDescription } of withDefault) expect(defaultValueDescription).toMatch(/^\d+[smhd]$/);
});
