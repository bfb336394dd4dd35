// One question to systeminformation, in a thread of its own: it runs tools synchronously, for seconds where a machine has
// many interfaces, and on the agent's own thread every stream of the host would stand still meanwhile.
import { parentPort, workerData } from "node:worker_threads";
import { cpu, fsSize, networkInterfaces, osInfo } from "systeminformation";
import type { SystemAnswers } from "./ask-system.ts";

const answers: { readonly [Question in keyof SystemAnswers]: () => Promise<SystemAnswers[Question]> } = {
  os: osInfo,
  parts: async () => {
    const networks = [await networkInterfaces()].flat();
    return { cpu: await cpu(), disks: await fsSize(), networks };
  },
};

parentPort?.postMessage(await answers[workerData as keyof SystemAnswers]());
