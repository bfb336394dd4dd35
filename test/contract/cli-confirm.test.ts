// Commands that cannot be undone ask first.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { apiKey, deployment } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";
import { openCliTerminal } from "./cli-terminal.ts";

const { id } = deployment();
let edge: Edge;
let deleted: string[] = [];
beforeAll(async () => {
  edge = await startEdge({
    change: (deps) => ({
      ...deps,
      deployments: {
        ...deps.deployments,
        remove(caller, of, act) {
          deleted.push(of);
          return deps.deployments.remove(caller, of, act);
        },
      },
    }),
  });
});
afterAll(() => edge?.close());

describe("deploy delete", () => {
  it("exits with 2 and deletes nothing without a terminal and without --yes", async () => {
    deleted = [];
    const { code, out, err } = await runCli(edge, apiKey, ["deploy", "delete", id], { input: "y\n" });
    expect({ code, out, deleted }).toEqual({ code: 2, out: "", deleted: [] });
    expect(err).toBe(
      "error: `stoker deploy delete` asks for confirmation, but there is no terminal to ask on. Add --yes to confirm.\n",
    );
  });

  it("deletes without a question with --yes", async () => {
    deleted = [];
    const { code, out } = await runCli(edge, apiKey, ["deploy", "delete", id, "--yes"]);
    expect({ code, out, deleted }).toEqual({ code: 0, out: `${id} deleted\n`, deleted: [id] });
  });

  it.each([
    ["y", 0, [id]],
    ["yes", 0, [id]],
    ["n", 1, []],
    ["", 1, []],
  ])("asks on a terminal; the answer %j exits with %i", async (answer, code, expected) => {
    deleted = [];
    const terminal = openCliTerminal(edge, apiKey, ["deploy", "delete", id]);
    await terminal.shows(/Delete \w+ \(\S+, \w+ 1\/1\)\? Requests to it fail from then on\. \[y\/N\]/);
    terminal.type(`${answer}\r`);
    expect(await terminal.exited).toBe(code);
    expect(deleted).toEqual(expected);
    if (code === 1) expect(terminal.screen()).toContain("Cancelled. Nothing was changed.");
  });
});
