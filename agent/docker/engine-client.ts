import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import Docker, { type GetEventsOptions } from "dockerode";
import type { Logger } from "pino";
import { pause } from "../../proto/pause.ts";
import { faultOf } from "./engine-fault.ts";
import { labelFilter } from "./labels.ts";

/** Newest supported API version; 1.41 has everything the driver uses. */
const newest = [1, 47] as const;
const callLimitMs = 60_000;

export type EngineClient = ReturnType<typeof createEngineClient>;

/** Without `socketPath` the client uses DOCKER_HOST and its default paths. */
export function createEngineClient(socketPath: string | undefined) {
  const where = socketPath === undefined ? {} : { socketPath };
  let known: Docker | undefined;

  /** Uses the older of both sides' newest versions: a newer engine may have dropped the default of an older one. */
  async function negotiated(bound: AbortSignal): Promise<Docker> {
    if (known) return known;
    // The client takes a signal here; its types do not say so.
    const asking = new Docker(where) as unknown as { version(options: object): Promise<{ ApiVersion: string }> };
    const { ApiVersion } = await asking.version({ abortSignal: bound });
    const [major = 1, minor = 41] = ApiVersion.split(".").map(Number);
    const isOlder = major < newest[0] || (major === newest[0] && minor < newest[1]);
    known = new Docker({ ...where, version: `v${isOlder ? ApiVersion : newest.join(".")}` });
    return known;
  }

  return {
    /** Runs calls against the engine with a time limit. Throws DriverError, or the signal's reason. */
    async call<T>(
      signal: AbortSignal,
      work: (docker: Docker, bound: AbortSignal) => Promise<T>,
      limitMs = callLimitMs,
    ): Promise<T> {
      const bound = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
      try {
        signal.throwIfAborted();
        return await work(await negotiated(bound), bound);
      } catch (error) {
        signal.throwIfAborted();
        const fault = faultOf(bound.aborted ? bound.reason : error);
        // The restarted engine may have another version.
        if (fault.code === "engine_away") known = undefined;
        throw fault;
      }
    },
  };
}

/** Returns the host user of root in a container: `nobody` if the engine has user namespaces. Throws DriverError without an engine. */
export async function rootOf(signal: AbortSignal, socketPath?: string): Promise<"nobody" | "host"> {
  const info = await createEngineClient(socketPath).call(
    signal,
    async (docker) => (await docker.info()) as { SecurityOptions?: readonly string[] },
  );
  const options = info.SecurityOptions ?? [];
  return options.some((one) => /^name=(userns|rootless)/.test(one)) ? "nobody" : "host";
}

const firstDelayMs = 500;
const longestDelayMs = 15_000;

/** Calls back for every event of our containers, and whenever events may have been missed. Ends with the signal. */
export async function followEvents(
  client: EngineClient,
  nodeName: string,
  onChange: () => void,
  log: Logger,
  signal: AbortSignal,
): Promise<void> {
  const filters = { type: ["container" as const], event: ["start", "oom", "die", "destroy"], ...labelFilter(nodeName) };
  for (let delayMs = firstDelayMs; !signal.aborted; ) {
    try {
      const events = await client.call(signal, (docker) =>
        docker.getEvents({ filters, abortSignal: signal } as GetEventsOptions),
      );
      onChange();
      delayMs = firstDelayMs;
      // The engine sends one line per event. Observe the containers instead of trusting its content.
      for await (const _ of createInterface({ input: events as Readable, signal })) onChange();
    } catch (err) {
      if (!signal.aborted) log.warn({ err }, "could not follow the engine's events; will retry");
    }
    await pause(delayMs, signal);
    delayMs = Math.min(2 * delayMs, longestDelayMs);
  }
}
