import { expect, it } from "vitest";
import { incidentsOf } from "../../../console/incidents.ts";
import { soundNode as node } from "../../fakes/sound-node.ts";

const sound = { imbalance_usd: 0, loss_last_hour_usd: 0, quarantined_records: 0 };

it("reports nothing for a healthy fleet and a balanced ledger", () => {
  expect(incidentsOf(sound, [node], [], 0)).toEqual([]);
});

it("lists the most severe incident first, each with its page", () => {
  const silent = { ...node, state: "unreachable", silent_seconds: 44.4 };
  const stuck = {
    ...node,
    node_id: "n2",
    name: "node-2",
    usage_spool: { records: 9, bytes: 9, oldest_age_seconds: 200 },
  };
  const found = incidentsOf(
    { imbalance_usd: 0.5, loss_last_hour_usd: 0.25, quarantined_records: 3 },
    [silent, stuck],
    [],
    0,
  );
  expect(found.map(({ problem, page }) => [problem, page])).toEqual([
    ["The ledger is out of balance by $0.50.", "/console/money"],
    ["3 usage records are in quarantine and not billed.", "/console/money"],
    ["node-1: no contact for 44 s.", "/console/nodes/n1"],
    ["node-2: oldest unsent usage record is 200 s old.", "/console/nodes/n2"],
    ["$0.25 of usage in the last hour was not charged.", "/console/money"],
  ]);
  expect(found[2]?.advice).toMatch(
    /^Check that the machine runs.*models start on other hosts.*Agent instances and rented containers wait for it/,
  );
  expect(found.every(({ advice }) => advice.endsWith("."))).toBe(true);
});

it("shows the pending hosts of a restored database, and an incomplete restore for a week", () => {
  const open = {
    id: "r1",
    cause: "restored",
    began_at: "2026-02-03T04:00:00.000Z",
    ends_by: "2026-02-05T04:00:00.000Z",
    ended_at: null,
    awaited_hosts: Array.from({ length: 7 }, (_, at) => ({ node_id: `n${at}`, name: `node-${at}` })),
    report: null,
  };
  expect(incidentsOf(sound, [node], [open], 0)).toMatchObject([
    {
      problem: "The database was restored (noticed 2026-02-03 04:00 UTC) and reconciliation is pending.",
      advice: expect.stringMatching(
        /^Waiting for usage records of node-0, .*, node-4 and 2 more until 2026-02-05 04:00 UTC\./,
      ),
    },
  ]);
  const counts = { hosts: 1, resent_records: 0, recovered_records: 0, recovered_usd: 0 };
  const report = { ...counts, missing_node_ids: ["n2"], lost_records_at_most: 3 };
  const ended = { ...open, ended_at: "2026-02-05T04:00:00.000Z", awaited_hosts: [], report };
  const daysLater = (days: number) => Date.parse(ended.ended_at) + days * 86_400_000;
  expect(incidentsOf(sound, [node], [ended], daysLater(6))[0]?.problem).toBe(
    "The restored database may miss usage: at most 3 records were dropped by hosts, and 1 hosts did not finish.",
  );
  expect(incidentsOf(sound, [node], [ended], daysLater(8))).toEqual([]);
  const whole = { ...ended, report: { ...counts, missing_node_ids: [], lost_records_at_most: 0 } };
  expect(incidentsOf(sound, [node], [whole], daysLater(0))).toEqual([]);
});
