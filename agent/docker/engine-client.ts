import Docker from "dockerode";
import { faultOf } from "./engine-fault.ts";

/** Newest API this driver was written for; 1.41 has all it uses. */
const newest = [1, 47] as const;
const callLimitMs = 60_000;

export interface EngineClient {
  /** Runs calls against the engine, bounded; whatever fails is a DriverError, except the signal's own reason. */
  call<T>(signal: AbortSignal, work: (docker: Docker, bound: AbortSignal) => Promise<T>, limitMs?: number): Promise<T>;
}

/** Without `socketPath` the client goes by DOCKER_HOST and the usual places. */
export function createEngineClient(socketPath: string | undefined): EngineClient {
  const where = socketPath === undefined ? {} : { socketPath };
  let known: Docker | undefined;

  /** The older of both sides' newest version: a newer engine may have dropped what an older one speaks by default. */
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
    async call(signal, work, limitMs = callLimitMs) {
      const bound = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
      try {
        signal.throwIfAborted();
        return await work(await negotiated(bound), bound);
      } catch (error) {
        signal.throwIfAborted();
        const fault = faultOf(bound.aborted ? bound.reason : error);
        // The engine that comes back may be another version.
        if (fault.code === "engine_away") known = undefined;
        throw fault;
      }
    },
  };
}
