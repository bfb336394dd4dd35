// `stoker deploy create` at a server that creates the deployment and then refuses to list GPUs.
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { runCli } from "./cli-run.ts";

it.each([429, 503])(
  "shows the deployment that was created if the list of GPUs is refused with %i",
  async (status) => {
    const requests: string[] = [];
    const server = createServer((request, response) => {
      requests.push(`${request.method} ${request.url}`);
      const isCreation = request.method === "POST";
      request.resume().once("end", () => {
        response.writeHead(isCreation ? 200 : status, { "content-type": "application/json" });
        response.end(JSON.stringify(isCreation ? created : { detail: "Refused." }));
      });
    });
    onTestFinished(async () => {
      server.close();
      await once(server, "close");
    });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { code, out, err } = await runCli({ url }, "stk_x", [
      ...["deploy", "create", "org/w", "--gpu", "H100-80GB", "--no-wait"],
    ]);
    expect({ code, err }).toEqual({
      code: 0,
      err: "The deployment is starting. Check its status: `stoker deploy get DpM4BkrjEspUwmTa`\n",
    });
    expect(out).toContain("DpM4BkrjEspUwmTa");
    expect(requests).toEqual(["POST /deploy/llm", "GET /deploy/llm/gpu_availability"]);
  },
  60_000,
);

const created = {
  deploy_id: "DpM4BkrjEspUwmTa",
  model_name: "org/w",
  status: "initializing",
  fail_reason: "",
  created_at: "2026-01-02T03:04:05+00:00",
  instances: { running: 0, pending: 1, warming: 0 },
  config: { gpu: "H100-80GB", num_gpus: 1, max_batch_size: 64, weights: { repo: "org/w", revision: "main" } },
  settings: { min_instances: 1, max_instances: 1 },
};
