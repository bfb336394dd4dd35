// GPUs are never claimed twice: random deployments of two accounts, deletions, crashed agents and control planes and cut
// connections on eight fake GPUs, the slices of a ninth and a real PostgreSQL. STOKER_PROPERTY_SECONDS says for how long (3, in the
// nightly run 300), STOKER_PROPERTY_SEED which run; the seed is printed.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { deleteDeployment } from "../../../control-plane/deployments/change.ts";
import type { Owner } from "../../../control-plane/deployments/create.ts";
import type { DeploymentId } from "../../../proto/ids.ts";
import type { FakeAgent } from "../../fakes/agent-session.ts";
import { longer } from "../../fakes/nightly.ts";
import { ada, type Replica, scaledLimits, startReplica } from "../fleet/replica.ts";
import { bob, type GpuWorld, type Kind, startGpuWorld } from "./gpu-world.ts";

const seconds = Number(process.env["STOKER_PROPERTY_SECONDS"] ?? longer(3, 300));
const seed = Number(process.env["STOKER_PROPERTY_SEED"] ?? Math.floor(Math.random() * 2 ** 31));

let world: GpuWorld;
beforeAll(async () => {
  world = await startGpuWorld(scaledLimits);
});
afterAll(() => world?.stop());

describe("eight GPUs", () => {
  it(`are never claimed twice during ${seconds} s of random events`, { timeout: (seconds + 90) * 1000 }, async () => {
    process.stderr.write(`gpu-claims: STOKER_PROPERTY_SEED=${seed}\n`);
    const next = randomOf(seed);
    const live: (readonly [Owner, DeploymentId])[] = [];
    const done = { deploy: 0, delete: 0, crash: 0, cut: 0, restart: 0, most: 0, looks: 0 };
    const cut = new Map<FakeAgent, number>();
    const until = performance.now() + seconds * 1000;
    // A slow machine goes on until two GPUs were in use at once, or it would prove nothing.
    for (let n = 0; performance.now() < until || done.most < 2; n++) {
      const dice = next(20);
      for (const [agent, backAt] of cut) {
        if (performance.now() < backAt) continue;
        cut.delete(agent);
        agent.connect();
      }
      const agent = world.agents[next(world.agents.length)] as FakeAgent;
      if (dice < 9) {
        const owner = next(2) === 0 ? ada : bob;
        const kinds: Kind[] = [
          { isSmall: true },
          { isSmall: true, gpu: "other" },
          { numGpus: 1 + next(4), instances: 1 + next(2) },
        ];
        const kind = kinds[next(kinds.length)] as Kind;
        live.push([owner, await world.deploy(owner, `r${n}`, kind)]);
        done.deploy += 1;
      } else if (dice < 15 && live.length > 0) {
        const [gone] = live.splice(next(live.length), 1);
        if (gone) await deleteDeployment((world.replicas[0] as Replica).deploymentStore, gone[0].account, gone[1]);
        done.delete += 1;
      } else if (dice < 17 && !cut.has(agent)) {
        agent.disconnect();
        agent.restart();
        agent.connect();
        done.crash += 1;
      } else if (dice === 17) {
        // Longer than it takes until its instances are placed anew; everything else goes on meanwhile.
        agent.disconnect();
        cut.set(agent, performance.now() + scaledLimits.lostMs * 1.5);
        done.cut += 1;
      } else if (dice === 18) {
        // The one without agents goes, as a kill would have it go, and another takes its place.
        const old = world.replicas.pop() as Replica;
        await old.stop();
        world.replicas.push(await startReplica(world.url, { owner: `r${n}`, limits: scaledLimits, port: old.port }));
        done.restart += 1;
      }
      world.comeBack(cut);
      await Promise.all(world.replicas.map((replica) => replica.controller.pass()));
      done.most = Math.max(done.most, await world.checkClaims());
      done.looks += 1;
    }
    process.stderr.write(`gpu-claims: ${JSON.stringify(done)}\n`);
    expect(done.most).toBeGreaterThan(1);
    for (const agent of cut.keys()) agent.connect();
    await world.removeAll(live);
  });
});

/** Mulberry32: the same numbers for the same seed everywhere. */
function randomOf(start: number): (below: number) => number {
  let state = start >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}
