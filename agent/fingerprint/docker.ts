// Whether a Docker engine answers here. Asked over its socket directly: the engine's client belongs to docker/.
import { request } from "node:http";
import type { Probe } from "./probe.ts";

export interface DockerFacts {
  /** Empty: no engine answers. */
  readonly dockerVersion: string;
  readonly hasNvidiaRuntime: boolean;
}

const limitMs = 3000;
const answerLimitBytes = 1024 * 1024;

export function dockerProbe(socketPath = "/var/run/docker.sock"): Probe<DockerFacts> {
  return {
    name: "docker",
    async read(signal) {
      try {
        const info = (await ask(socketPath, "/info", signal)) as { ServerVersion?: string; Runtimes?: object };
        return {
          dockerVersion: info.ServerVersion ?? "",
          hasNvidiaRuntime: Object.keys(info.Runtimes ?? {}).includes("nvidia"),
        };
      } catch {
        signal.throwIfAborted();
        return { dockerVersion: "", hasNvidiaRuntime: false };
      }
    },
  };
}

function ask(socketPath: string, path: string, signal: AbortSignal): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const bound = AbortSignal.any([signal, AbortSignal.timeout(limitMs)]);
    const sent = request({ socketPath, path, signal: bound }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (piece: string) => {
        text += piece;
        if (text.length > answerLimitBytes) answer.destroy(new Error("the engine's answer is too long"));
      });
      answer.on("error", reject);
      answer.on("end", () => {
        try {
          resolve(JSON.parse(text));
        } catch (error) {
          reject(error);
        }
      });
    });
    sent.on("error", reject);
    sent.end();
  });
}
