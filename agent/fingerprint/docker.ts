// Detects a Docker engine. Uses its socket directly: the engine's client belongs to docker/.
import { request } from "node:http";
import type { Probe } from "./probe.ts";

export interface DockerFacts {
  readonly dockerVersion: string;
  /** True if containers can get NVIDIA GPUs, by the runtime or by CDI. */
  readonly hasNvidiaRuntime: boolean;
  /** Devices that the engine's CDI specifications define, such as amd.com/gpu=0; of Docker 28.2 and later. */
  readonly cdiDevices: readonly string[];
}

/** A busy engine needs seconds to reply. */
const limitMs = 15_000;
const answerLimitBytes = 1024 * 1024;
/** No server, or no permission: a retry does not help. */
const absences = new Set(["ENOENT", "ECONNREFUSED", "EACCES", "EPERM", "ENOTSOCK", "ENOTDIR"]);

/** Rejects if an engine is present but does not reply in time or correctly: its facts are then unknown. */
export function dockerProbe(socketPath = "/var/run/docker.sock", waitMs = limitMs): Probe<DockerFacts> {
  return {
    name: "docker",
    async read(signal) {
      try {
        const info = (await ask(socketPath, "/info", waitMs, signal)) as DockerInfo;
        if (!info.ServerVersion) throw new Error("its answer names no version");
        const cdiDevices = cdiDevicesIn(info);
        const hasNvidiaRuntime =
          Object.keys(info.Runtimes ?? {}).includes("nvidia") ||
          cdiDevices.some((name) => name.startsWith("nvidia.com/gpu=GPU-"));
        return { dockerVersion: info.ServerVersion, hasNvidiaRuntime, cdiDevices };
      } catch (error) {
        signal.throwIfAborted();
        if (absences.has((error as NodeJS.ErrnoException).code ?? ""))
          return { dockerVersion: "", hasNvidiaRuntime: false, cdiDevices: [] };
        throw new Error(
          `a Docker engine listens on ${socketPath} and did not say what it is: ${(error as Error).message}`,
          {
            cause: error,
          },
        );
      }
    },
  };
}

interface DockerInfo {
  readonly ServerVersion?: string;
  readonly Runtimes?: object | null;
  readonly DiscoveredDevices?: readonly { readonly Source?: unknown; readonly ID?: unknown }[] | null;
}

function cdiDevicesIn({ DiscoveredDevices: devices }: DockerInfo): readonly string[] {
  if (!Array.isArray(devices)) return [];
  return devices.flatMap(({ Source, ID }) => (Source === "cdi" && typeof ID === "string" ? [ID] : []));
}

function ask(socketPath: string, path: string, waitMs: number, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const slow = AbortSignal.timeout(waitMs);
    const bound = AbortSignal.any([signal, slow]);
    const failed = (error: Error) =>
      reject(slow.aborted ? new Error(`nothing came within ${waitMs / 1000} s`, { cause: error }) : error);
    const sent = request({ socketPath, path, signal: bound }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece: string) => {
        text += piece;
        if (text.length > answerLimitBytes) answer.destroy(new Error("the engine's answer is too long"));
      });
      answer.on("error", failed);
      answer.on("end", () => {
        try {
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.on("error", failed);
    sent.end();
  });
}
