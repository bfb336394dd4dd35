import type { Command } from "commander";
import { expect, it } from "vitest";
import { pathOf } from "../../../cli/command.ts";
import { createProgram } from "../../../cli/program.ts";

const leavesOf = (one: Command): readonly Command[] =>
  one.commands.length === 0 ? [one] : one.commands.flatMap(leavesOf);
const asks = (one: Command) => one.options.some(({ long }) => long === "--yes");
const leaves = leavesOf(createProgram("0.0.0"));

/** They destroy data, keys or access. */
const verbs = /^(delete|remove|revoke|erase|erase-user|discard|discard-host|reset|end-unknown)$/;

it("asks before every command whose verb destroys something", () => {
  const destructive = leaves.filter((one) => verbs.test(one.name()));
  expect(destructive.length).toBeGreaterThan(15);
  expect(destructive.filter((one) => !asks(one)).map(pathOf)).toEqual([]);
});

it("asks before no other command, except those that destroy with a flag replace data or start to cost", () => {
  const others = leaves.filter((one) => asks(one) && !verbs.test(one.name())).map(pathOf);
  expect(others.sort()).toEqual([
    "stoker admin key",
    "stoker backup restore",
    "stoker deploy model",
    "stoker node drain",
  ]);
});
