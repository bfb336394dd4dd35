import { Worker } from "node:worker_threads";
import type { Systeminformation } from "systeminformation";

export interface SystemAnswers {
  readonly os: Systeminformation.OsData;
  readonly parts: {
    readonly cpu: Systeminformation.CpuData;
    readonly disks: Systeminformation.FsSizeData[];
    readonly networks: Systeminformation.NetworkInterfacesData[];
  };
}

/** Off the agent's own thread. Rejects with the signal's reason, or with what went wrong. */
export function askSystem<Question extends keyof SystemAnswers>(
  question: Question,
  signal: AbortSignal,
): Promise<SystemAnswers[Question]> {
  signal.throwIfAborted();
  const worker = new Worker(new URL("./system-worker.ts", import.meta.url), { workerData: question });
  worker.unref();
  return new Promise<SystemAnswers[Question]>((resolve, reject) => {
    worker.once("message", resolve);
    worker.once("error", reject);
    worker.once("exit", () => reject(new Error("systeminformation gave no answer")));
    signal.addEventListener("abort", () => reject(signal.reason), { once: true });
  }).finally(() => void worker.terminate());
}
