import { describe, expect, it } from "vitest";
import type { HostState } from "../../../../control-plane/fleet/host.ts";
import { createRoutingTable } from "../../../../control-plane/fleet/routing-table.ts";
import type { RouteRow } from "../../../../control-plane/fleet/store.ts";
import type { ApiFormat } from "../../../../proto/api-formats.ts";
import type { AdapterId, DeploymentId, HostId, InstanceId } from "../../../../proto/ids.ts";

const deployId = "d" as DeploymentId;
const row = (id: string, host = "h", over: Partial<RouteRow> = {}): RouteRow => ({
  instanceId: id as InstanceId,
  deployId,
  hostId: host as HostId,
  origin: `http://${host}`,
  ticketKey: Buffer.alloc(32),
  maxBatchSize: 4,
  adapters: new Set(),
  formats: new Set(),
  nodeEpoch: 1n,
  ...over,
});

function start(passedFormats?: readonly ApiFormat[]) {
  const at = {
    rows: [] as RouteRow[],
    isUnavailable: false,
    states: new Map<string, HostState>(),
    heard: [] as string[],
  };
  const table = createRoutingTable({
    store: {
      readyInstances: async () => {
        if (at.isUnavailable) throw new Error("database away");
        return at.rows;
      },
    },
    clocks: { heard: (host) => void at.heard.push(host), state: (host) => at.states.get(host) ?? "live" },
    passedFormats,
  });
  const ids = () => table.ready(deployId).map((route) => route.instanceId);
  return { at, table, ids };
}

describe("the routing table", () => {
  it("retains one object per instance over refreshes, with its requests in flight and the newest address and key", async () => {
    const { at, table } = start();
    at.rows = [row("a")];
    await table.refresh();
    const route = table.ready(deployId)[0];
    if (route) route.inFlight = 3;
    at.rows = [row("a", "h", { origin: "http://moved", ticketKey: Buffer.alloc(32, 1), nodeEpoch: 2n })];
    await table.refresh();
    expect(table.ready(deployId)[0]).toBe(route);
    expect(route).toMatchObject({ inFlight: 3, origin: "http://moved", ticketKey: Buffer.alloc(32, 1) });
  });

  it("returns the same list while its members are the same, also with an adapter or without a lost host", async () => {
    const { at, table } = start();
    const adapter = "adapter" as AdapterId;
    const adapters = new Set([adapter]);
    at.rows = [
      row("a", "h1", { adapters }),
      row("b", "h2", { adapters }),
      row("c", "h3"),
      row("d", "h4", { adapters }),
    ];
    await table.refresh();
    const listsOf = (expected: readonly string[], of?: AdapterId) => {
      const list = table.ready(deployId, of);
      expect(list.map(({ instanceId }) => instanceId)).toEqual(expected);
      for (let n = 0; n < 10; n++) expect(table.ready(deployId, of)).toBe(list);
      return list;
    };
    const lists = [listsOf(["a", "b", "c", "d"]), listsOf(["a", "b", "d"], adapter)];
    at.states.set("h1", "unreachable");
    lists.push(listsOf(["b", "c", "d"]), listsOf(["b", "d"], adapter));
    // As many members as before, but others.
    at.states.set("h1", "live").set("h2", "unreachable");
    lists.push(listsOf(["a", "c", "d"]), listsOf(["a", "d"], adapter));
    table.sawFailure("h4" as HostId, "d" as InstanceId);
    lists.push(listsOf(["a", "c"]), listsOf(["a"], adapter));
    at.states.clear();
    table.sawReport("h4" as HostId);
    lists.push(listsOf(["a", "b", "c", "d"]), listsOf(["a", "b", "d"], adapter));
    at.rows.pop();
    await table.refresh();
    lists.push(listsOf(["a", "b", "c"]), listsOf(["a", "b"], adapter), listsOf([], "unknown" as AdapterId));
    expect(new Set(lists).size).toBe(lists.length);
  });

  it("gives each instance a slot for as long as it is known, and never the same twice", async () => {
    const { at, table } = start();
    const slots = () => table.ready(deployId).map(({ slot }) => slot);
    at.rows = [row("a"), row("b")];
    await table.refresh();
    expect(slots()).toEqual([0, 1]);
    at.rows = [row("b"), row("c")];
    await table.refresh();
    expect(slots()).toEqual([1, 2]);
    expect(table.slotOf("a" as InstanceId)).toBeUndefined();
    at.rows = [row("a"), row("b"), row("c")];
    await table.refresh();
    expect(slots()).toEqual([3, 1, 2]);
    expect(table.slotOf("a" as InstanceId)).toBe(3);
  });

  it.each([
    [undefined, ["responses", "messages", "messages_tools", "structured_outputs"]],
    [["messages"] as const, ["messages", "messages_tools", "structured_outputs"]],
    [[], ["structured_outputs"]],
  ])("passes requests on in the formats %j of those that an instance speaks", async (passed, formats) => {
    const { at, table } = start(passed);
    at.rows = [
      row("a", "h", { formats: new Set(["responses", "messages", "messages_tools", "structured_outputs"] as const) }),
    ];
    await table.refresh();
    await table.refresh();
    expect(table.formats("a" as InstanceId)).toEqual(formats);
    expect([...(table.ready(deployId)[0]?.formats ?? [])]).toEqual(formats);
    expect(table.formats("b" as InstanceId)).toEqual([]);
  });

  it("retains the last known routes while the database is unavailable", async () => {
    const { at, table, ids } = start();
    at.rows = [row("a")];
    await table.refresh();
    at.isUnavailable = true;
    await expect(table.refresh()).rejects.toThrow("away");
    expect(ids()).toEqual(["a"]);
    expect(table.isLoaded).toBe(true);
  });

  it("routes no new requests to a silent host until it reports again", async () => {
    const { at, table, ids } = start();
    at.rows = [row("a", "h1"), row("b", "h2")];
    await table.refresh();
    at.states.set("h1", "unreachable");
    expect(ids()).toEqual(["b"]);
    at.states.set("h1", "live");
    expect(ids()).toEqual(["a", "b"]);
  });

  it("leaves out an instance that refused a connection until its host reports or registers again", async () => {
    const { at, table, ids } = start();
    const failures: HostId[] = [];
    table.onFailure((host) => failures.push(host));
    at.rows = [row("a", "h1"), row("b", "h2")];
    await table.refresh();
    table.sawFailure("h1" as HostId, "a" as InstanceId);
    await table.refresh();
    expect(ids()).toEqual(["b"]);
    expect(failures).toEqual(["h1"]);
    table.sawReport("h1" as HostId);
    expect(ids()).toEqual(["a", "b"]);
    table.sawFailure("h1" as HostId, "a" as InstanceId);
    at.rows = [row("a", "h1", { nodeEpoch: 2n }), row("b", "h2")];
    await table.refresh();
    expect(ids()).toEqual(["a", "b"]);
  });

  it("removes deleted instances and ignores other deployments", async () => {
    const { at, table, ids } = start();
    at.rows = [row("a")];
    await table.refresh();
    at.rows = [];
    await table.refresh();
    expect(ids()).toEqual([]);
    expect(table.ready("other" as DeploymentId)).toEqual([]);
  });
});
