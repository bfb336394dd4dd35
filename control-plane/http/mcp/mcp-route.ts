// MCP server (streamable HTTP, stateless): a client of the Model Context Protocol calls the API under its own key.
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { Caller } from "../../accounts/caller.ts";
import { mediumBodyBytes } from "../body/json-body.ts";
import { type Endpoints, pairs } from "../core/endpoint.ts";
import type { RequestState } from "../core/request-state.ts";
import { type ApiPaths, type Tool, toolOf, toolOperations } from "./mcp-tools.ts";

/** Maximum response of a tool: a model reads it as part of its prompt. */
const maxResultBytes = 256 * 1024;

/** A message of JSON-RPC. Lists of messages, which an older version had, are refused: one request is one call. */
const Message = Type.Object({
  jsonrpc: Type.Literal("2.0"),
  method: Type.Optional(Type.String({ maxLength: 256 })),
});

export function addMcpRoute(endpoints: Endpoints, app: FastifyInstance, version: string): void {
  let tools: readonly Tool[] | undefined;
  const handlers = new Map<boolean, ReturnType<typeof createHandler>>();

  endpoints.addRaw(
    {
      method: "POST",
      path: "/mcp",
      summary: "Model Context Protocol: the API as tools for agents",
      tag: "account",
      access: "key",
      // Each tool is a request of its own, which checks the key again.
      right: "readAccount",
      bodyLimitBytes: mediumBodyBytes,
      body: Message,
      answer: Message,
      accepted: "A notification was received.",
      isFromMemory: true,
      refusals: [400],
    },
    async (request, reply) => {
      const state = request.state as RequestState;
      const { isAdmin } = state.caller as Caller;
      tools ??= toolOperations.map((known) => toolOf(app.swagger().paths as unknown as ApiPaths, known));
      let handler = handlers.get(isAdmin);
      if (!handler) {
        handler = createHandler(
          app,
          version,
          tools.filter(({ isForOperators }) => isAdmin || !isForOperators),
        );
        handlers.set(isAdmin, handler);
        // The next call tries again.
        handler.catch(() => handlers.delete(isAdmin));
      }
      const response = await (await handler).fetch(asWebRequest(request), {
        parsedBody: request.body,
        authInfo: { token: "", clientId: "", scopes: [], extra: { request } },
      });
      return passOn(response, reply, state);
    },
  );
}

/** Loaded at the first call: most installations never use it. */
async function createHandler(app: FastifyInstance, version: string, tools: readonly Tool[]) {
  const { createMcpHandler, fromJsonSchema, McpServer } = await import("@modelcontextprotocol/server");
  const schemas = tools.map(({ inputSchema }) => fromJsonSchema<Record<string, unknown>>(inputSchema));
  return createMcpHandler(
    () => {
      const server = new McpServer(
        { name: "stoker", version },
        { instructions: "Models, deployments, usage and logs of a Stoker installation, under the caller's API key." },
      );
      for (const [place, tool] of tools.entries()) {
        const { name, description, isRead = false, isDestructive = false } = tool;
        server.registerTool(
          name,
          {
            description,
            inputSchema: schemas[place] as (typeof schemas)[number],
            annotations: { readOnlyHint: isRead, destructiveHint: isDestructive, openWorldHint: false },
          },
          async (input, context) => {
            const request = context.http?.authInfo?.extra?.["request"] as FastifyRequest;
            return call(app, tool, input, request);
          },
        );
      }
      return server;
    },
    // Notifications of changes need streams that stay open; nothing here changes while a client is connected.
    { maxSubscriptions: 0 },
  );
}

async function call(app: FastifyInstance, tool: Tool, input: Record<string, unknown>, outer: FastifyRequest) {
  const { method, url, body } = tool.request(input);
  const { authorization, "x-api-key": key, "xi-api-key": voiceKey } = outer.headers;
  const response = await app.inject({
    method: method as "GET",
    url,
    remoteAddress: outer.ip,
    headers: {
      ...(authorization === undefined ? {} : { authorization }),
      ...(key === undefined ? {} : { "x-api-key": key }),
      ...(voiceKey === undefined ? {} : { "xi-api-key": voiceKey }),
    },
    ...(body === undefined ? {} : { payload: body }),
  });
  const size = Buffer.byteLength(response.body);
  const isTooLarge = size > maxResultBytes;
  const text = isTooLarge
    ? `The response has ${size} bytes. The limit is ${maxResultBytes}. Ask for less, for example with a limit or a shorter time.`
    : response.body;
  return { content: [{ type: "text" as const, text }], isError: isTooLarge || response.statusCode >= 400 };
}

function asWebRequest(request: FastifyRequest): Request {
  const headers = new Headers();
  for (const name of ["content-type", "accept", "mcp-protocol-version", "mcp-method", "mcp-name"]) {
    const value = request.headers[name];
    if (typeof value === "string") headers.set(name, value);
  }
  // `*/*`, or no header, accepts both types that the handler requires.
  if (/^\s*\*\/\*\s*$/.test(headers.get("accept") ?? "*/*"))
    headers.set("accept", "application/json, text/event-stream");
  return new Request("http://localhost/mcp", { method: "POST", headers, body: JSON.stringify(request.body) });
}

async function passOn(response: Response, reply: FastifyReply, state: RequestState): Promise<FastifyReply> {
  // The API has no status 406; the message says what to accept.
  reply.code(response.status === 406 ? 400 : response.status).headers(pairs(state.headers()));
  const type = response.headers.get("content-type");
  if (type !== null) reply.header("content-type", type);
  return reply.serializer((text: string) => text).send(await response.text());
}
