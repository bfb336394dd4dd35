// `stoker admin quarantine` and `stoker admin restores` against the real edge.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, ...args: string[]) => runCli(edge, key, args);

describe("stoker admin quarantine", () => {
  it("lists the records of a host, at most the limit", async () => {
    const asked: unknown[] = [];
    const { list } = edge.deps.usageQuarantine;
    edge.deps.usageQuarantine.list = (...wanted) => {
      asked.push(wanted);
      return list(...wanted);
    };
    const { out, err } = await stoker(adminKey, "admin", "quarantine", "list", "--node", "host-1", "--limit", "7");
    edge.deps.usageQuarantine.list = list;
    expect(out, err).toMatch(/^ID +HOST +REQUEST +PROBLEM +AT +REASON *\n12 +host-1 +request-1\/\d+ +bad_seal +\d{4}-/);
    expect(asked).toEqual([["host-1", 0n, 7]]);
    expect((await stoker(adminKey, "admin", "quarantine", "list", "--limit", "201")).code).toBe(2);
  }, 60_000);

  it("prints the counts of each host with --json", async () => {
    const { out, err } = await stoker(adminKey, "--json", "admin", "quarantine", "list");
    expect(JSON.parse(out), err).toMatchObject({
      hosts: [{ host_id: "host-1", open: 2, dropped: 7 }],
      records: [{ id: "12", record: "{}" }],
    });
  }, 60_000);

  it.each(["release", "discard"] as const)(
    "passes id and note of a %s, and exits with 4 for an unknown id",
    async (verb) => {
      const asked: unknown[] = [];
      const yes = verb === "discard" ? ["--yes"] : [];
      const desk = edge.deps.usageQuarantine;
      const before = desk[verb];
      desk[verb] = (id, act) => {
        asked.push([id, act.note]);
        return before(id, act);
      };
      const done = await stoker(adminKey, "admin", "quarantine", verb, "12", "--note", "looked at it", ...yes);
      desk[verb] = before;
      expect(done.out, done.err).toMatch(new RegExp(`^12: ${verb}d, request request-1/\\d+ of host-1\n$`));
      expect(asked).toEqual([[12n, "looked at it"]]);
      expect((await stoker(adminKey, "admin", "quarantine", verb, "99", "--note", "x", ...yes)).code).toBe(4);
      const withoutNote = await stoker(adminKey, "admin", "quarantine", verb, "12");
      expect(withoutNote).toMatchObject({ code: 2, out: "" });
      expect(withoutNote.err).toContain("--note");
    },
    60_000,
  );

  it("prints why a record cannot be released", async () => {
    const refused = await stoker(adminKey, "admin", "quarantine", "release", "13", "--note", "x");
    expect(refused.out).toBe("");
    expect(refused.err).toContain("it has no sealed ticket");
    expect(refused.code).not.toBe(0);
  }, 60_000);

  it("discards all records of a host, and refuses a key that is not an operator's", async () => {
    const asked: unknown[] = [];
    const desk = edge.deps.usageQuarantine;
    const { discardHost } = desk;
    desk.discardHost = (host, act) => {
      asked.push([host, act.note]);
      return discardHost(host, act);
    };
    const flags = ["admin", "quarantine", "discard-host", "host-1", "--note", "a test host", "--yes"];
    const done = await stoker(adminKey, ...flags);
    expect(done.out, done.err).toBe("2 records of host-1 discarded\n");
    expect(await stoker(apiKey, ...flags)).toMatchObject({ code: 3, out: "" });
    desk.discardHost = discardHost;
    expect(asked).toEqual([["host-1", "a test host"]]);
  }, 60_000);
});

describe("stoker admin restores", () => {
  it("shows the awaited hosts of an open restore and the report of an ended one", async () => {
    const { out, err } = await stoker(adminKey, "admin", "restores");
    expect(out, err).toBe(
      [
        "2026-02-03T04:00:00Z  host host-1 has a mark of a later state of this database",
        "  reconciliation pending; agents resend their kept usage records",
        "  waiting until 2026-02-05T04:00:00Z: node-1 (host-1)",
        "2026-02-03T04:00:00Z  restored from a backup",
        "  ended 2026-02-03T04:05:00Z",
        "  recovered 40 of 120 resent records, USD 1.500000",
        "  lost at most 3 records; hosts that did not finish: host-2",
        "",
      ].join("\n"),
    );
  }, 60_000);
});
