import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { requireFunds, type TimeHolds } from "../../../control-plane/deployments/dedicated-money.ts";
import type { AccountId } from "../../../proto/ids.ts";
import { startFakeAgent } from "../../fakes/agent-session.ts";
import { sharedPostgres, type TestDatabases } from "../../fakes/postgres.ts";
import { startReplica } from "../fleet/replica.ts";

const wait = { timeout: 20_000, interval: 25 };
let postgres: TestDatabases;
beforeAll(async () => {
  postgres = await sharedPostgres();
});
afterAll(() => postgres?.stop());

type Running = Parameters<TimeHolds["renew"]>[0];

/** A running deployment whose holds are answered by `leftMs`; undefined: granted. */
async function stackWith(leftMs: () => number | undefined, why: "funds" | "suspended" = "funds") {
  const asked: Running[] = [];
  const holds: TimeHolds = {
    async renew(running) {
      asked.push(running);
      const left = leftMs();
      const reason =
        why === "funds"
          ? { kind: "funds" as const, needed: 500_000_000n }
          : { kind: "suspended" as const, reason: "admin" };
      return left === undefined ? [] : running.map((one) => ({ ...one, why: reason, leftMs: left }));
    },
  };
  const replica = await startReplica(await postgres.migratedDatabase(), { holds });
  const agent = await startFakeAgent({ address: replica.address, token: replica.joinToken, hostId: "host-1" });
  onTestFinished(async () => {
    await agent.close();
    await replica.stop();
  });
  agent.connect();
  agent.obey("ready");
  const { id } = await replica.deploy({ numGpus: 2 });
  const status = async () => (await replica.get(id))?.status;
  return { asked, replica, agent, id, status };
}

describe("a dedicated deployment", () => {
  it("holds money as soon as it is ready, by account, GPU type and count", async () => {
    const { asked, id, status } = await stackWith(() => undefined);
    await vi.waitFor(async () => expect(await status()).toBe("deployed"), wait);
    await vi.waitFor(() => expect(asked.at(-1)).toHaveLength(1), wait);
    expect(asked.at(-1)).toMatchObject([{ deployId: id, account: "u:ada", gpu: "other", gpus: 2 }]);
  });

  it("whose next minutes cannot be held is drained and stopped within the held time, with the reason", async () => {
    const { replica, agent, id, status } = await stackWith(() => 90_000);
    await vi.waitFor(async () => expect(await status()).toBe("stopped"), wait);
    expect((await replica.get(id))?.failReason).toMatch(/^insufficient_funds: .*USD 0\.5 .*Add funds/);
    expect(agent.tombstonesSeen).toHaveLength(1);
  });

  it("of a suspended account is stopped with the reason", async () => {
    const { replica, id, status } = await stackWith(() => 0, "suspended");
    await vi.waitFor(async () => expect(await status()).toBe("stopped"), wait);
    expect((await replica.get(id))?.failReason).toMatch(/^account_suspended: .*\(admin\)/);
  });

  it("continues while a top-up can still arrive in time", async () => {
    const { asked, status } = await stackWith(() => 200_000);
    await vi.waitFor(() => expect(asked.at(-1)).toHaveLength(1), wait);
    await vi.waitFor(async () => expect(await status()).toBe("deployed"), wait);
  });

  it("does not start without funds for its first minutes", async () => {
    const want = { modelName: "acme/m", gpu: "H100-80GB" as const, numGpus: 2, minInstances: 3 };
    const asked: unknown[] = [];
    const paying = (funds: bigint | null) => ({
      funds: async () => funds,
      firstMinutes: async (...args: unknown[]) => {
        asked.push(args);
        return 900n;
      },
    });
    const account = "u:ada" as AccountId;
    await expect(requireFunds(paying(899n), account, want)).rejects.toMatchObject({ code: "insufficient_quota" });
    await expect(requireFunds(paying(0n), account, want)).rejects.toMatchObject({ code: "insufficient_quota" });
    await requireFunds(paying(900n), account, want);
    await requireFunds(paying(null), account, want);
    expect(asked[0]).toEqual(["H100-80GB", 2, 3, { account, model: "acme/m" }]);
  });
});
