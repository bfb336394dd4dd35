// What a scoped token may and may not, over the real edge.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Caller } from "../../control-plane/accounts/caller.ts";
import { chat, type Edge, startEdge, text } from "../fakes/edge.ts";
import { ada, servedModel } from "../fakes/ports.ts";

let edge: Edge;
beforeAll(async () => {
  edge = await startEdge();
  edge.models.models = [servedModel(), servedModel({ name: "org/model-large" }), servedModel({ name: "org/mod" })];
  edge.authenticator.callers.set("jwt:t", scoped(["org/model"]));
});
afterAll(() => edge.close());

const scoped = (models: readonly string[] | null): Caller => ({
  ...ada,
  via: "jwt",
  models: models && new Set(models),
});
const bearer = { headers: { authorization: "Bearer jwt:t" } };

interface Dialects {
  readonly error?: { readonly code?: string; readonly details?: { readonly error_code?: string } };
  readonly detail?: { readonly status?: string };
}

async function ask(model: string, path = "/v1/compat/chat/completions"): Promise<{ status: number; code?: string }> {
  const body = path.endsWith("chat/completions") ? chat({ model }) : text({ model });
  const answer = await edge.post(path, body, bearer);
  const { error } = (await answer.json()) as { error?: { code?: string } };
  return { status: answer.status, ...(error?.code === undefined ? {} : { code: error.code }) };
}

describe("a scoped token", () => {
  it.each(["/v1/compat/chat/completions", "/v1/completions"])(
    "is served its model on %s, and no other",
    async (path) => {
      expect(await ask("org/model", path)).toEqual({ status: 200 });
      const before = edge.budgets.holds.length;
      // A name that begins like it, one that it begins like, other letters, other spellings: none is that model.
      for (const model of ["org/model-large", "org/mod", "ORG/MODEL", "org/model ", "org", "org/unknown"])
        expect(await ask(model, path), model).toEqual({ status: 403, code: "model_not_allowed" });
      expect(edge.budgets.holds.length).toBe(before);
    },
  );

  it("may spell its model by the deployment's id, and no other so", async () => {
    const { deployId } = servedModel();
    expect(await ask(`deploy_id:${deployId}`)).toEqual({ status: 200 });
    edge.authenticator.callers.set("jwt:t", scoped(["org/model-large"]));
    expect(await ask(`deploy_id:${deployId}`)).toEqual({ status: 403, code: "model_not_allowed" });
    edge.authenticator.callers.set("jwt:t", scoped(["org/model"]));
  });

  it("of no model is served none, one of any model every", async () => {
    edge.authenticator.callers.set("jwt:t", scoped([]));
    expect(await ask("org/model")).toEqual({ status: 403, code: "model_not_allowed" });
    edge.authenticator.callers.set("jwt:t", scoped(null));
    expect(await ask("org/model-large")).toEqual({ status: 200 });
    expect(await ask("org/unknown")).toEqual({ status: 404, code: "model_not_found" });
    edge.authenticator.callers.set("jwt:t", scoped(["org/model"]));
  });

  it("sees only its models in the list", async () => {
    const answer = await fetch(`${edge.url}/v1/models`, bearer);
    const { data } = (await answer.json()) as { data: { id: string }[] };
    expect(data.map(({ id }) => id)).toEqual(["org/model"]);
  });

  it("is refused by every management operation", async () => {
    const paths = (edge.app.swagger().paths ?? {}) as Record<string, Record<string, { security?: unknown[] }>>;
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, { security = [] }]) => ({ method: method.toUpperCase(), path, security })),
    );
    const inference =
      /^\/v1\/(models|completions|compat\/|text-to-speech\/|inference\/|messages(\/count_tokens)?$|rerank$|score$|responses$)/;
    // Records of models are read by whoever may ask the models.
    const isRecord = (method: string, path: string) => method === "GET" && path.startsWith("/models/");
    const closed = operations.filter(
      ({ method, path, security }) => security.length > 0 && !inference.test(path) && !isRecord(method, path),
    );
    expect(closed.length).toBeGreaterThan(20);
    for (const { method, path } of closed) {
      const body = /POST|PUT|PATCH/.test(method) ? { body: "{}" } : {};
      const answer = await fetch(edge.url + path.replaceAll(/\{[^}]+\}/g, "x"), { method, ...bearer, ...body });
      // Each dialect says the code in its own place.
      const { code: native, error, detail } = (await answer.json()) as Record<string, unknown> & Dialects;
      const code = native ?? error?.code ?? error?.details?.error_code ?? detail?.status;
      expect({ method, path, status: answer.status, code }).toEqual({
        method,
        path,
        status: 403,
        code: "scope_not_allowed",
      });
    }
  });
});
