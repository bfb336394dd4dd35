// Whoever uses the command line is told commands where the API's sentences name paths.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { commandsOfPaths, withCommands } from "../../../cli/command-of-path.ts";

it.each([
  ["`GET /deploy/list` shows yours.", "`stoker deploy list` shows yours."],
  [
    "Its records stay (`GET /v1/admin/accounts/u:123`), but",
    "Its records stay (`stoker admin account get u:123`), but",
  ],
  ["`GET /models/ada/llm` shows", "`stoker model get ada/llm` shows"],
  ["rented with POST /v1/containers.", "rented with `stoker container create <name>`."],
  ["start it: `POST /deploy/{deploy_id}/start`.", "start it: `stoker deploy start {deploy_id}`."],
  ["Two: `GET /v1/files`, `GET /v1/batches`", "Two: `stoker file list`, `stoker batch list`"],
  [
    "`GET /models/ada/tiny-1.5.en` shows how; others: GET /models/list.",
    "`stoker model get ada/tiny-1.5.en` shows how; others: `stoker model list`.",
  ],
])("%s", (sentence, said) => expect(withCommands(sentence)).toBe(said));

it.each([
  ["`GET /models/lora/list` lists those"],
  ["Send `GET /unknown`"],
  ["FORGET /deploy/list"],
  ["no path at all"],
])("leaves alone what no command asks: %s", (sentence) => expect(withCommands(sentence)).toBe(sentence));

it("knows every path in a message of the control plane", () => {
  const root = join(import.meta.dirname, "../../..");
  const files = globSync("control-plane/**/*.ts", { cwd: root }).filter((file) => !/-(routes|schemas)\.ts$/.test(file));
  const sentences = files.flatMap((file) =>
    readFileSync(join(root, file), "utf8")
      .split("\n")
      .filter((line) => !/^\s*(\/\/|\/?\*)/.test(line)),
  );
  const calls = sentences.flatMap((line) =>
    [...line.matchAll(/`((?:GET|POST|PUT|PATCH|DELETE) \/[^\s`\\]*)\\?`/g)].map(([, call = ""]) =>
      call.replaceAll(/\$\{[^}]*\}/g, "X"),
    ),
  );
  expect(calls.length).toBeGreaterThan(20);
  const isKnown = (call: string) => commandsOfPaths[call] === "" || withCommands(call) !== call;
  expect(calls.filter((call) => !isKnown(call))).toEqual([]);
});
