import { setTimeout as sleep } from "node:timers/promises";
import { type Api, refusal } from "./api.ts";
import { offer } from "./deploy-model.ts";
import type { ExternalServer } from "./options.ts";
import type { Screen } from "./screen.ts";
import { UpError } from "./up-error.ts";

const maxBatchSize = 64;
/** Time in which a running server is detected. */
const answerLimitMs = 15_000;
const pricing = { input: 0.02, cached_input: 0.01, output: 0.04 };

/**
 * Registers a running OpenAI-compatible server as an instance, with keys, gate, metering and billing. Returns true if it is ready,
 * otherwise prints a warning.
 */
export async function serveExternal(
  api: Api,
  server: ExternalServer,
  screen: Pick<Screen, "step" | "warn">,
  limitMs = answerLimitMs,
): Promise<boolean> {
  const step = screen.step(`External server ${server.name}`);
  const answer = await api.call("POST", "/v1/admin/external", {
    name: server.name,
    url: server.url,
    max_batch_size: maxBatchSize,
  });
  if (answer.status >= 300) {
    throw new UpError(
      `The server ${server.name} at ${new URL(server.url).host} could not be served: ${refusal(answer)}.`,
    );
  }
  await offer(api, server.name, {
    deploy_id: answer.body?.deploy_id,
    description: "An OpenAI-compatible server beside Stoker",
    pricing,
  });
  const deadline = performance.now() + limitMs;
  while (performance.now() < deadline) {
    if ((await api.call("GET", `/deploy/${answer.body?.deploy_id}`)).body?.status === "deployed") {
      step.done();
      return true;
    }
    await sleep(200);
  }
  step.done("no answer yet");
  screen.warn(
    `${server.name} is not served yet: ${new URL(server.url).host} does not answer as an OpenAI-compatible server that ` +
      "lists this name under /v1/models. It is served as soon as it does; after five minutes without an answer it is given up " +
      "until `up` is started again.",
  );
  return false;
}
