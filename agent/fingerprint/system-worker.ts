// Runs one systeminformation query in a separate thread: it runs tools synchronously, for seconds on a machine with many
// interfaces, and would block every stream on the agent's own thread.
import { parentPort, workerData } from "node:worker_threads";
import { cpu, fsSize, networkInterfaces, osInfo } from "systeminformation";
import type { SystemAnswers } from "./host-parts.ts";

const answers: { readonly [Question in keyof SystemAnswers]: () => Promise<SystemAnswers[Question]> } = {
  os: osInfo,
  parts: async () => {
    const networks = [await networkInterfaces()].flat();
    return { cpu: await cpu(), disks: await fsSize(), networks };
  },
};

parentPort?.postMessage(await answers[workerData as keyof SystemAnswers]());
