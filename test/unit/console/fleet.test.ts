import { describe, expect, it } from "vitest";
import {
  cellOf,
  customersOf,
  filtered,
  freeCapacity,
  gpuStateOf,
  statusOf,
  totalsOf,
} from "../../../console/domain/fleet.ts";
import { scriptedCustomers, scriptedFleet } from "../../fakes/scripted-fleet.ts";

const { nodes } = scriptedFleet(30, 8);
const all = { type: "", pool: "", status: "", health: "", customer: "" };
const gpusOf = (filter: Partial<typeof all>) => filtered(nodes, { ...all, ...filter }).flatMap(({ gpus }) => gpus);

describe("filters of the fleet", () => {
  it("let everything through without a choice, by name of the host", () => {
    expect(gpusOf({})).toHaveLength(240);
    expect(filtered([...nodes].reverse(), all).map(({ node }) => node.name)).toEqual(nodes.map(({ name }) => name));
  });

  it("combine type, pool, status of the host and health of the GPU", () => {
    const found = filtered(nodes, { ...all, type: "L4-24GB", pool: "prod", status: "ready", health: "free" });
    expect(found.length).toBeGreaterThan(0);
    for (const { node, gpus } of found) {
      expect([node.pool, statusOf(node)]).toEqual(["prod", "ready"]);
      for (const gpu of gpus) expect([gpu.type, gpuStateOf(gpu)]).toEqual(["L4-24GB", "free"]);
    }
    expect(gpusOf({ health: "cordoned" }).every((gpu) => gpu.cordoned_at !== null)).toBe(true);
    expect(filtered(nodes, { ...all, status: "draining" }).map(({ node }) => node.node_id)).toEqual(["n-4"]);
  });

  it("find the GPUs of one customer", () => {
    const found = gpusOf({ customer: "u:3" });
    expect(found.length).toBeGreaterThan(0);
    expect(found.length).toBeLessThan(gpusOf({}).length);
    for (const { account } of found) expect(account?.uid).toBe("u:3");
  });

  it("keep a host without GPUs unless a filter of GPUs is set", () => {
    const bare = [{ ...(nodes[0] as (typeof nodes)[number]), gpus: [] }];
    expect(filtered(bare, all)).toHaveLength(1);
    expect(filtered(bare, { ...all, health: "free" })).toHaveLength(0);
  });
});

describe("status of a host", () => {
  it("is the operation of an operator, but never hides that the host is silent", () => {
    const [node] = nodes;
    const drain = { kind: "drain", note: "", began_at: "", deadline_at: null };
    expect(statusOf({ state: "data_path_unreachable", operation: drain })).toBe("draining");
    expect(statusOf({ state: "lost", operation: drain })).toBe("lost");
    expect(node && statusOf(node)).toBe("ready");
  });
});

describe("cells of the heat map", () => {
  const customers = customersOf(nodes);
  const marks = new Map(customers.map((one) => [one.uid, one]));

  it("give each customer a letter and a colour, the largest first", () => {
    expect(customers).toHaveLength(scriptedCustomers);
    expect(customers.map(({ sign }) => sign).join("")).toBe("ABCDEFGHIJKL");
    const counts = customers.map(({ gpus }) => gpus);
    expect(counts).toEqual(counts.toSorted((a, b) => b - a));
    expect(counts.reduce((sum, one) => sum + one, 0)).toBe(gpusOf({}).filter(({ account }) => account).length);
  });

  it("say in a sign what the colour says", () => {
    for (const gpu of gpusOf({})) {
      expect(cellOf(gpu, "use", marks).sign).toBe(`${Math.min(9, Math.floor((gpu.utilization_ratio ?? 0) * 10))}`);
      expect(cellOf(gpu, "customer", marks).sign).toBe(gpu.account ? marks.get(gpu.account.uid)?.sign : "○");
    }
    const [gpu] = gpusOf({ health: "used" });
    if (!gpu) throw new Error("no GPU is in use");
    expect(cellOf({ ...gpu, account: null }, "customer", marks).sign).toBe("*");
    expect(cellOf({ ...gpu, utilization_ratio: null }, "use", marks).sign).toBe("●");
    expect(cellOf({ ...gpu, is_claimed: false, memory_used_bytes: null }, "memory", marks).sign).toBe("○");
    const signs = ["free", "used", "cordoned"].map((health) => {
      const [one] = gpusOf({ health });
      return one && cellOf(one, "health", marks).sign;
    });
    expect(signs).toEqual(["○", "●", "▲"]);
    expect(cellOf({ ...gpu, is_healthy: false }, "health", marks)).toEqual({ tone: "faulty", sign: "✕" });
  });
});

it("counts free GPUs on hosts in use, and the largest free block", () => {
  const free = freeCapacity(nodes);
  expect(free.map(({ type }) => type)).toEqual(["B200-180GB", "H100-80GB", "L4-24GB"]);
  for (const { type, free: count, all: total, largest } of free) {
    expect(total).toBe(80);
    expect(count).toBeGreaterThan(largest);
    const blocks = nodes.map((node) =>
      statusOf(node) === "ready"
        ? node.gpus.filter((gpu) => gpu.type === type && gpuStateOf(gpu) === "free").length
        : 0,
    );
    expect(largest).toBe(Math.max(...blocks));
  }
});

it("adds up hosts, GPUs by state and requests", () => {
  const totals = totalsOf(nodes);
  expect(totals).toMatchObject({ hosts: 30, ready: 27, gpus: 240 });
  expect(Object.values(totals.byState).reduce((sum, one) => sum + one, 0)).toBe(240);
  expect(totals.running).toBe(2 * totals.waiting);
});
