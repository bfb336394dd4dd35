// Runs instances as containers of a Docker engine. The engine holds all state: containers with this node's label are ours, also
// if an earlier agent started them; all others are ignored.
import type Docker from "dockerode";
import type { Logger } from "pino";
import type { InstanceId } from "../../proto/ids.ts";
import type { TerminalSize } from "../../proto/terminal-tunnel.ts";
import { createInTurn } from "../containers/in-turn.ts";
import { createListening } from "../containers/listening.ts";
import { selectLines } from "../containers/log-lines.ts";
import { type ContainerDriver, type ContainerPlan, DriverError, type Observed } from "../reconcile/driver.ts";
import { parseRange } from "./bridge-network.ts";
import { readFrames } from "./container-log.ts";
import { createEngineClient, followEvents } from "./engine-client.ts";
import { faultOf, statusOf } from "./engine-fault.ts";
import { containerName, labelFilter, ownedOf } from "./labels.ts";
import { createModelFirewall } from "./model-firewall.ts";
import { modelProfile } from "./model-profile.ts";
import { observeContainer } from "./observe-container.ts";
import type { ContainerProfile } from "./profile.ts";
import { pullImage } from "./pull-image.ts";
import { endLeftShells, openShell } from "./shell.ts";

export interface DockerDriverOptions {
  readonly log: Logger;
  /** By default DOCKER_HOST, else /var/run/docker.sock. */
  readonly socketPath?: string | undefined;
  /** Label of this agent's containers: two agents on one engine must differ in it. */
  readonly nodeName: string;
  /** Networks of instances are /28s of it. */
  readonly containerSubnet?: string | undefined;
  readonly runtimeImage: string;
  /** Model servers start only where rules between them and their host can be set. */
  readonly requiresFirewall?: boolean;
  /** Profile of its containers; default: model servers. */
  readonly profile?: ContainerProfile;
}

const defaultSubnet = "10.231.0.0/16";
const stopMarginMs = 30_000;
/** An image may be tens of gigabytes; one that does not move is ended sooner. */
const pullLimitMs = 6 * 3_600_000;
const pullSilenceMs = 300_000;
const cleanUpLimitMs = 30_000;

/** Throws when `containerSubnet` is no usable range. */
export class DockerDriver implements ContainerDriver {
  readonly #options: DockerDriverOptions;
  readonly #runtimeImage: string;
  readonly #nodeName: string;
  readonly #log: Logger;
  readonly #subnet: string;
  readonly #client: ReturnType<typeof createEngineClient>;
  readonly #profile: ContainerProfile;
  readonly #starting = new Set<string>();
  readonly #listening = createListening();
  readonly #inTurn = createInTurn();
  readonly #closing = new AbortController();
  readonly #listeners: (() => void)[] = [];
  #isSwept = false;
  #leftShells: Promise<void> | undefined;

  constructor(options: DockerDriverOptions) {
    this.#options = options;
    this.#runtimeImage = options.runtimeImage;
    this.#nodeName = options.nodeName;
    this.#log = options.log;
    this.#subnet = options.containerSubnet || defaultSubnet;
    parseRange(this.#subnet);
    this.#client = createEngineClient(options.socketPath);
    this.#profile = options.profile ?? this.#modelServers();
  }

  #modelServers(): ContainerProfile {
    const firewall = createModelFirewall({
      nodeName: this.#nodeName,
      log: this.#log,
      isRequired: this.#options.requiresFirewall ?? false,
    });
    const onTrouble = (err: unknown): void =>
      this.#log.warn({ err }, "could not set the rules between containers and this host");
    return modelProfile({
      nodeName: this.#nodeName,
      runtimeImage: this.#runtimeImage,
      subnet: this.#subnet,
      firewall,
      onTrouble,
    });
  }

  async #containersOf(docker: Docker, id: InstanceId | undefined, abortSignal: AbortSignal) {
    const found = await docker.listContainers({ all: true, filters: labelFilter(this.#nodeName, id), abortSignal });
    return found.flatMap((one) => {
      const owned = ownedOf(one.Labels);
      return owned ? [{ ...owned, id: one.Id, state: one.State }] : [];
    });
  }

  /** Removes containers that were created and never started because an agent died in between, and networks without instance. */
  async #sweep(docker: Docker, signal: AbortSignal): Promise<void> {
    for (const one of await this.#containersOf(docker, undefined, signal)) {
      if (one.state !== "created" || this.#starting.has(containerName(one))) continue;
      this.#log.info({ instance: one.instanceId }, "removing a container that never started");
      await discard(docker, one.id, signal);
    }
    const kept = new Set((await this.#containersOf(docker, undefined, signal)).map(({ instanceId }) => instanceId));
    for (const network of await docker.listNetworks({ filters: labelFilter(this.#nodeName), abortSignal: signal })) {
      const id = network.Labels?.["stoker.instance"] as InstanceId | undefined;
      if (id !== undefined && !kept.has(id) && ![...this.#starting].some((name) => name.startsWith(`stoker-${id}-g`)))
        await this.#profile.cleanUp(docker, id, signal);
    }
    this.#isSwept = true;
  }

  async #launch(docker: Docker, plan: ContainerPlan, bound: AbortSignal): Promise<void> {
    const config = await this.#profile.config(plan, docker, bound);
    const hash = ownedOf(config.Labels ?? {})?.plan;
    const here = await this.#containersOf(docker, plan.instanceId, bound);
    if (here.some((one) => one.state === "running" && one.generation === plan.generation)) return;
    if (here.some((one) => one.state === "running"))
      throw new DriverError("start_failed", "another generation of the instance still runs", { retryable: true });
    const again = here.find((one) => one.generation === plan.generation && one.plan === hash && one.state === "exited");
    for (const one of here) if (one !== again) await discard(docker, one.id, bound);
    await this.#profile.prepare(docker, plan.instanceId, bound);
    // Restart the same container, which continues its log: a crash loop is judged by it.
    if (again) return startIt(docker, again.id, bound);
    try {
      await docker.createContainer({ ...config, abortSignal: bound });
    } catch (error) {
      // The name is taken: continue an interrupted start, but only with a container of our own.
      const others = statusOf(error) === 409 ? await this.#containersOf(docker, plan.instanceId, bound) : [];
      if (!others.some((one) => one.generation === plan.generation)) throw error;
    }
    await startIt(docker, containerName(plan), bound);
  }

  async #cleanUp(plan: ContainerPlan): Promise<void> {
    const limit = AbortSignal.timeout(cleanUpLimitMs);
    await this.#client.call(limit, async (docker, bound) => {
      const here = await this.#containersOf(docker, plan.instanceId, bound);
      for (const one of here) if (one.state === "created") await discard(docker, one.id, bound);
      if (here.every((one) => one.state === "created")) await this.#profile.cleanUp(docker, plan.instanceId, bound);
    });
  }

  async #start(plan: ContainerPlan, signal: AbortSignal): Promise<void> {
    const name = containerName(plan);
    this.#starting.add(name);
    try {
      await this.#client.call(signal, async (docker, bound) => {
        await this.#launch(docker, plan, bound).catch((error: unknown) => {
          throw bound.aborted ? error : faultOf(error, plan.image || this.#runtimeImage);
        });
      });
      this.#log.info({ instance: plan.instanceId, generation: plan.generation }, "started a container");
    } catch (error) {
      // Remove what never ran: the container and its network.
      this.#isSwept = false;
      await this.#cleanUp(plan).catch((err) =>
        this.#log.warn({ err, instance: plan.instanceId }, "clean-up after a failed start"),
      );
      throw error;
    } finally {
      this.#starting.delete(name);
    }
  }

  async #stop(id: InstanceId, graceMs: number, signal: AbortSignal): Promise<void> {
    const seconds = Math.ceil(graceMs / 1000);
    await this.#client.call(
      signal,
      async (docker, bound) => {
        const here = await this.#containersOf(docker, id, bound);
        // A copy of its files froze it and will wake it: retry then, not in a loop in the meantime.
        if (here.some((one) => one.state === "paused"))
          throw new DriverError("start_failed", "its container is frozen for a backup", { retryable: true });
        const running = here.filter((one) => one.state === "running");
        await Promise.all(
          running.map((one) => {
            const container = docker.getContainer(one.id);
            const ended =
              seconds > 0 ? container.stop({ t: seconds, abortSignal: bound }) : container.kill({ abortSignal: bound });
            return ignoring([304, 404, 409], ended);
          }),
        );
      },
      graceMs + stopMarginMs,
    );
  }

  async #remove(id: InstanceId, signal: AbortSignal): Promise<void> {
    try {
      await this.#client.call(signal, async (docker, bound) => {
        for (const one of await this.#containersOf(docker, id, bound)) await discard(docker, one.id, bound);
        await this.#profile.cleanUp(docker, id, bound);
      });
    } catch (error) {
      // An engine that restarted in between may have lost the container and kept its network: no later call removes it.
      this.#isSwept = false;
      throw error;
    }
  }

  /** Once: later shells are this agent's own. */
  async #endLeftShells(containers: readonly { readonly id: string; readonly state: string }[]): Promise<void> {
    const running = containers.filter(({ state }) => state === "running");
    await Promise.all(
      running.map(({ id }) =>
        endLeftShells(this.#client, { container: id, user: this.#profile.shellUser }, this.#closing.signal).catch(
          (err) => this.#log.warn({ err, container: id }, "could not end the shells of an earlier agent"),
        ),
      ),
    );
  }

  readonly name = "docker";

  readonly list: ContainerDriver["list"] = (signal) =>
    this.#client.call(signal, async (docker, bound) => {
      if (!this.#isSwept) await this.#sweep(docker, bound);
      const found = await this.#containersOf(docker, undefined, bound);
      // Not awaited: it must not delay the observation.
      this.#leftShells ??= this.#endLeftShells(found);
      const ids = found.map((one) => one.instanceId);
      await this.#profile.uphold?.(ids, docker, bound);
      const seen = await Promise.all(
        found.map(async (one): Promise<Observed | undefined> => {
          const info = await ignoring(404, docker.getContainer(one.id).inspect({ abortSignal: bound } as object));
          const observed = info && observeContainer(info, this.#starting.has(containerName(one)));
          return info && observed && this.#listening.check(this.#profile.seen(observed, info), bound);
        }),
      );
      return seen.filter((one) => one !== undefined);
    });

  readonly pull: ContainerDriver["pull"] = async (plan, onProgress, signal) => {
    const image = plan.image || this.#runtimeImage;
    const silent = new AbortController();
    const timer = setTimeout(() => silent.abort(), pullSilenceMs).unref();
    const progressed = (done: number, total: number): void => {
      timer.refresh();
      onProgress(done, total);
    };
    try {
      const either = AbortSignal.any([signal, silent.signal]);
      await this.#client.call(either, (docker, bound) => pullImage(docker, image, progressed, bound), pullLimitMs);
    } catch (error) {
      if (!silent.signal.aborted || signal.aborted) throw error;
      const why = `The pull of the image ${image} stalled: no data for ${pullSilenceMs / 60_000} minutes.`;
      throw new DriverError("image_unreachable", why, { retryable: true, cause: error });
    } finally {
      clearTimeout(timer);
    }
  };

  readonly start: ContainerDriver["start"] = (plan, signal) =>
    this.#inTurn.run(plan.instanceId, signal, () => this.#start(plan, signal));

  readonly stop: ContainerDriver["stop"] = (id, graceMs, signal) =>
    this.#inTurn.run(id, signal, () => this.#stop(id, graceMs, signal));

  readonly remove: ContainerDriver["remove"] = (id, signal) =>
    this.#inTurn.run(id, signal, () => this.#remove(id, signal));

  readonly logs: ContainerDriver["logs"] = (id, range, signal) =>
    this.#client.call(signal, async (docker, bound) => {
      const newest = (await this.#containersOf(docker, id, bound)).sort((a, b) => b.generation - a.generation)[0];
      if (!newest) return [];
      // The engine counts `tail` before it cuts at `until`, so a range is fetched whole; its files hold 30 MB at most.
      const isTail = range.fromMs === undefined && range.toMs === undefined;
      const part = isTail ? { tail: range.limit } : { since: Math.floor((range.fromMs ?? 0) / 1000) };
      const options = { stdout: true, stderr: true, timestamps: true, follow: false as const, ...part };
      const framed = await ignoring(404, docker.getContainer(newest.id).logs({ ...options, abortSignal: bound }));
      return selectLines(readFrames(Buffer.from(framed ?? "")), range);
    });

  readonly openShell = async (id: InstanceId, size: TerminalSize, signal: AbortSignal) => {
    await this.#leftShells;
    const here = await this.#client.call(signal, (docker, bound) => this.#containersOf(docker, id, bound));
    const frozen = here.some(({ state }) => state === "paused");
    if (frozen) throw new DriverError("start_failed", "its container is frozen for a backup", { retryable: true });
    const container = here.find(({ state }) => state === "running");
    return (
      container && openShell(this.#client, { container: container.id, user: this.#profile.shellUser }, size, signal)
    );
  };

  readonly watch: ContainerDriver["watch"] = (onChange) => {
    this.#listeners.push(onChange);
    if (this.#listeners.length > 1) return;
    const notify = (): void => {
      for (const listener of this.#listeners) listener();
    };
    void followEvents(this.#client, this.#nodeName, notify, this.#log, this.#closing.signal);
  };

  readonly close = async () => {
    this.#listeners.length = 0;
    this.#closing.abort();
  };
}

async function startIt(docker: Docker, id: string, abortSignal: AbortSignal): Promise<void> {
  await ignoring(304, docker.getContainer(id).start({ abortSignal }));
}

async function discard(docker: Docker, id: string, abortSignal: AbortSignal): Promise<void> {
  await ignoring([404, 409], docker.getContainer(id).remove({ force: true, v: true, abortSignal }));
}

/** Undefined if the engine replies with one of these: another call was faster, or nothing has to change. */
async function ignoring<T>(statuses: number | number[], call: Promise<T>): Promise<T | undefined> {
  try {
    return await call;
  } catch (error) {
    if ([statuses].flat().includes(statusOf(error) ?? 0)) return undefined;
    throw error;
  }
}
