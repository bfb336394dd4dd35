// The real HTTP edge and spine on a socket, over in-memory ports and scripted agents.
import type { AddressInfo } from "node:net";
import { createHttp, type HttpDeps } from "../../control-plane/http/core/create-http.ts";
import { type FakeAgent, startFakeAgent } from "./agent-data-plane.ts";
import { apiKey, type FakePorts, fakePorts } from "./ports.ts";

export interface Edge extends FakePorts {
  readonly app: Awaited<ReturnType<typeof createHttp>>;
  readonly url: string;
  /** The first is routed to from the start. */
  readonly agents: readonly FakeAgent[];
  readonly agent: FakeAgent;
  post(
    path: string,
    body: unknown,
    init?: { headers?: Record<string, string>; signal?: AbortSignal },
  ): Promise<Response>;
  close(): Promise<void>;
}

export async function startEdge(
  options: { readonly agents?: number; readonly shared?: boolean; readonly change?: (deps: HttpDeps) => HttpDeps } = {},
): Promise<Edge> {
  const ports = fakePorts();
  const agents = await Promise.all(Array.from({ length: options.agents ?? 1 }, () => startFakeAgent(options)));
  for (const agent of agents) ports.routes.add(agent.origin);
  const app = await createHttp(options.change?.(ports.deps) ?? ports.deps);
  await app.listen({ host: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
  return {
    ...ports,
    app,
    url,
    agents,
    agent: agents[0] as FakeAgent,
    post: (path, body, init = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { authorization: `Bearer ${apiKey}`, "content-type": "application/json", ...init.headers },
        body: typeof body === "string" ? body : JSON.stringify(body),
        ...(init.signal ? { signal: init.signal } : {}),
      }),
    async close() {
      app.server.closeAllConnections();
      await app.close();
      await Promise.all(agents.map((agent) => agent.close()));
    },
  };
}

export const chat = (change: Record<string, unknown> = {}) => ({
  model: "org/model",
  messages: [{ role: "user", content: "Hello" }],
  ...change,
});
export const text = (change: Record<string, unknown> = {}) => ({
  model: "org/model",
  prompt: "Once upon a time",
  ...change,
});
