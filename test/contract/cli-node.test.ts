// The CLI's words about hosts against the real edge.
import { afterAll, beforeAll, expect, it } from "vitest";
import type { DeploymentId, HostId, InstanceId } from "../../proto/ids.ts";
import { type Edge, startEdge } from "../fakes/edge.ts";
import { adminKey, apiKey } from "../fakes/ports.ts";
import { runCli } from "./cli-run.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
});
afterAll(() => edge?.close());

const stoker = (key: string, ...args: string[]) => runCli(edge, key, args);

it("lists hosts with their whole ids and says what is wrong with each", async () => {
  const { out, err } = await stoker(adminKey, "node", "list");
  expect(out).toMatch(/^node-1 +ready +1xother +0 +50% .* \S*node-1$/m);
  expect(err).toContain("node-1: GPU 0 GPU-0:");
});

it("lists only the hosts of a pool", async () => {
  const listed = async (pool: string) =>
    JSON.parse((await stoker(adminKey, "--json", "node", "list", "--pool", pool)).out);
  expect(await listed("")).toMatchObject([{ name: "node-1", pool: "" }]);
  expect(await listed("elsewhere")).toEqual([]);
}, 60_000);

it("lists adopted and unknown instances of an adopted host", async () => {
  const { adopt } = edge.deps.enrolment;
  const left = [
    {
      instanceId: "i2" as InstanceId,
      deployId: "d2" as DeploymentId,
      why: "its deployment does not exist in this database",
    },
  ];
  edge.deps.enrolment.adopt = async () => ({
    hostId: "node-1" as HostId,
    instances: ["i1" as InstanceId],
    deployIds: ["d1" as DeploymentId],
    left,
  });
  const { out } = await stoker(adminKey, "node", "adopt", "node-1");
  edge.deps.enrolment.adopt = adopt;
  expect(out).toBe(
    "Host node-1 adopted.\n  adopted: i1\n  unknown: i2 of d2: its deployment does not exist in this database\n" +
      "Unknown instances occupy GPUs until stopped: stoker node end-unknown node-1\n",
  );
});

it("shows a host and reports an unknown one", async () => {
  const { out } = await stoker(adminKey, "node", "get", "node-1");
  expect(out).toMatch(/figures +2 s old/);
  expect(out).toMatch(/25%.*72W FAULTY +D000000000000001/);
  expect(out).toMatch(/instance-1 +ready +3 running, 1 waiting, 40.5 tok\/s/);
  expect(JSON.parse((await stoker(adminKey, "--json", "node", "get", "node-1")).out)).toMatchObject({
    name: "node-1",
  });
  expect(await stoker(adminKey, "node", "get", "nobody")).toMatchObject({
    code: 4,
    err: expect.stringContaining("nobody"),
  });
});

it("rejects an empty host name without a request", async () => {
  for (const args of [["info"], ["uncordon"], ["revoke"], ["adopt"], ["weights"], ["prefetch"], ["unfetch"]]) {
    const rest = args[0] === "prefetch" || args[0] === "unfetch" ? ["one/two"] : [];
    const { code, err } = await stoker(adminKey, "node", ...args, "", ...rest);
    expect(code).toBe(2);
    expect(err).toContain("Must be the name or id of a host");
    expect(err).not.toContain("    at ");
  }
}, 60_000);

it("rejects unknown fields", async () => {
  for (const path of ["tokens", "node-1/weights"]) {
    const answer = await fetch(`${edge.url}/v1/admin/nodes/${path}`, {
      method: "POST",
      headers: { authorization: `Bearer ${adminKey}`, "content-type": "application/json" },
      body: JSON.stringify({ repo: "acme/tiny", ttl_secs: 60 }),
    });
    expect(answer.status).toBe(422);
    expect(JSON.stringify(await answer.json())).toContain("Extra inputs are not permitted");
  }
});

it("puts a GPU back into use and records the reason", async () => {
  const asked: unknown[] = [];
  const uncordon = edge.deps.hosts.uncordon;
  edge.deps.hosts.uncordon = (id, gpu, act) => {
    asked.push([id, gpu, act.note]);
    return uncordon(id, gpu, act);
  };
  expect((await stoker(adminKey, "node", "uncordon", "node-1", "--gpu", "GPU-0", "--note", "reseated")).code).toBe(0);
  expect(asked).toEqual([["node-1", "GPU-0", "reseated"]]);
});

it("prints the fleet once without a terminal, by host or by deployment", async () => {
  const { out, code } = await stoker(adminKey, "top");
  expect(code).toBe(0);
  expect(out).toContain("1 host  1 GPU, 0 free, 1 faulty  3 requests  40.5 tok/s");
  expect(out).not.toContain("\u001B");
  expect((await stoker(adminKey, "top", "--deployments")).out).toMatch(/D000000000000001\n +1\/1 ready +3 requests/);
  expect(await stoker(apiKey, "top")).toMatchObject({ code: 3 });
});

it("shows what a drain would move without draining", async () => {
  const drains: unknown[] = [];
  const { drain } = edge.deps.hosts;
  edge.deps.hosts.drain = (...drained) => {
    drains.push(drained);
    return drain(...drained);
  };
  const dryRun = (...more: string[]) => stoker(adminKey, "node", "drain", "node-1", "--dry-run", ...more);
  const instance = "  instance-1 ada/llm of ada@example.com, 1 GPU, 4 requests";
  expect((await dryRun()).out).toBe(
    [
      "Host node-1: 0 of 1 instances move, 1 cannot move, 0 stay, 0 stop.",
      instance,
      "    cannot move: serves until the deadline, then stops",
      "       node-2: 0 of 1 other GPUs are free; 1 needed\n",
    ].join("\n"),
  );
  expect((await dryRun("--force")).out).toBe(
    `Host node-1: 1 of 1 instances stop at once; running requests to cancel: 4.\n${instance}, 0 serving elsewhere\n`,
  );
  edge.deps.hosts.drain = drain;
  expect(drains).toEqual([]);
}, 60_000);

it("drains a host with an instance that cannot move only after a question", async () => {
  const asked = ["node", "drain", "node-1", "--no-wait"];
  const refused = await stoker(adminKey, ...asked);
  expect(refused).toMatchObject({ code: 2, out: "" });
  expect(refused.err).toContain("cannot move: serves until the deadline, then stops");
  expect(refused.err).toMatch(/At \d{4}-\S+Z these end without a replacement: ada\/llm \(instance-1\)\./);
  expect(refused.err).toContain("Add --yes to confirm.");
  const done = await stoker(adminKey, ...asked, "--yes");
  expect(done.out, done.err).toContain("2/3 instances moved");
  expect(done.err).toContain("Undo: `stoker node uncordon node-1`");
}, 60_000);
