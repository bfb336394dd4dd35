// POST /v1/load_lora_adapter and /v1/unload_lora_adapter, as vLLM has them. For the agent alone: the path is one of its own
// file system, so nothing that a customer sends may reach these.
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AdapterHost } from "./engine.ts";
import { Fields } from "./fields.ts";
import { readBody } from "./read-body.ts";
import { renderError } from "./render-error.ts";
import { invalid, RequestError } from "./request-error.ts";
import type { RuntimeState } from "./runtime-state.ts";
import { readyEngine } from "./serve-generation.ts";
import { adapterHostOf } from "./text-engine.ts";
import { writeJson } from "./write-json.ts";

/** Paths of requests, so no separators that would make two names look alike in `<model>:<adapter>`. */
const nameForm = /^[\w.-]+(\/[\w.-]+)?$/;

export async function serveAdapters(
  state: RuntimeState,
  change: "load" | "unload",
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const engine = readyEngine(state);
    const host = adapterHostOf(engine);
    if (!host)
      throw new RequestError(400, "this model takes no LoRA adapters at run time", { code: "unsupported_task" });
    const fields = new Fields(await readBody(request));
    const name = fields.string("lora_name") ?? "";
    if (!nameForm.test(name) || name.length > 200)
      throw invalid("lora_name", "lora_name must be letters, digits, . _ - and at most one /");
    await (change === "load" ? load(host, state, name, fields) : unload(host, state, name));
    response.writeHead(200, { "content-type": "text/plain; charset=utf-8" });
    response.end(`Success: LoRA adapter '${name}' ${change === "load" ? "added" : "removed"} successfully.`);
  } catch (error) {
    const { status, body, headers } = renderError(error);
    writeJson(response, status, body, headers);
  }
}

async function load(host: AdapterHost, state: RuntimeState, name: string, fields: Fields): Promise<void> {
  if (name === state.model) throw invalid("lora_name", "lora_name is the name of the model itself");
  const path = fields.string("lora_path");
  if (path === undefined) throw invalid("lora_path", "lora_path is required: the adapter's folder or file");
  await host.loadAdapter(name, path);
  state.formerAdapters.delete(name);
}

async function unload(host: AdapterHost, state: RuntimeState, name: string): Promise<void> {
  if (!host.unloadAdapter(name))
    throw new RequestError(404, `the adapter ${name} is not loaded`, { param: "lora_name", code: "not_found" });
  state.formerAdapters.add(name);
}
