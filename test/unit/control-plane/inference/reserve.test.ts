import { describe, expect, it } from "vitest";
import type { Route } from "../../../../control-plane/fleet/routes.ts";
import { Reserve } from "../../../../control-plane/inference/reserve.ts";

const routes = (count: number): readonly Route[] =>
  Array.from({ length: count }, (_, slot) => ({
    instanceId: `instance-${slot}`,
    deployId: "deployment",
    hostId: `host-${slot}`,
    origin: "",
    ticketKey: Buffer.alloc(0),
    maxBatchSize: 16,
    slot,
    inFlight: 0,
    queuedTokens: 0,
  })) as unknown as readonly Route[];

function setup(count: number) {
  const clock = { ms: 0 };
  const reserve = new Reserve(() => clock.ms);
  const ready = routes(count);
  const send = (account: string, sequences = 1) => {
    const load = reserve.loadOf(ready, account);
    const avoided = load && reserve.avoidedBy(load, ready);
    if (load) reserve.started(load, sequences);
    return { load, avoided: avoided ? avoided.reduce((sum, mark) => sum + mark, 0) : 0, marks: avoided };
  };
  return { clock, reserve, ready, send };
}

describe("reserved instances", () => {
  it("are avoided by an account with an eighth of the slots while a lighter one is present", () => {
    const { send } = setup(8);
    send("light");
    expect(send("heavy", 16).avoided).toBe(0);
    expect(send("heavy").avoided).toBe(2);
    expect(send("light").avoided).toBe(0);
  });

  it("are used by the only account, and again a minute after the last request of a lighter one", () => {
    const { send, clock } = setup(8);
    send("heavy", 100);
    expect(send("heavy").avoided).toBe(0);
    send("light");
    expect(send("heavy").avoided).toBe(2);
    clock.ms = 60_000;
    expect(send("heavy").avoided).toBe(0);
  });

  it("are used by an account that has fallen to half of its limit", () => {
    const { send, reserve } = setup(8);
    const { load } = send("heavy", 20);
    send("light");
    expect(send("heavy").avoided).toBe(2);
    reserve.ended(load as NonNullable<typeof load>, 14);
    expect(send("heavy").avoided).toBe(0);
  });

  it("are computed once per list of instances", () => {
    const { send, ready } = setup(8);
    let reads = 0;
    for (const route of ready) {
      const { instanceId } = route;
      const get = () => {
        reads += 1;
        return instanceId;
      };
      Object.defineProperty(route, "instanceId", { get });
    }
    for (let n = 0; n < 50; n++) for (const account of ["light", "heavy", "heavy"]) send(account);
    expect(reads).toBe(8);
  });

  it("are the same at every gateway: none of three instances, an eighth of many, and two from eight on", () => {
    for (const [count, kept] of [
      [3, 0],
      [4, 1],
      [7, 1],
      [8, 2],
      [9, 2],
      [64, 8],
    ] as const) {
      const [one, other] = [setup(count), setup(count)].map(({ send }) => {
        send("light");
        send("heavy", 2_000);
        return send("heavy");
      });
      expect(one?.avoided).toBe(kept);
      expect(one?.marks).toEqual(other?.marks);
    }
  });
});
