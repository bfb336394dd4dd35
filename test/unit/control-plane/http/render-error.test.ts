import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { InvalidApiKey } from "../../../../control-plane/accounts/errors.ts";
import { refusalOf, renderError } from "../../../../control-plane/http/render-error.ts";
import { ModelNotFound, ModelNotReady, UpstreamBroken } from "../../../../control-plane/inference/errors.ts";
import { ServiceError } from "../../../../control-plane/service-error.ts";

const body = (error: unknown, dialect: "service" | "compat") =>
  JSON.parse(renderError(refusalOf(error), dialect, "r1").body);

describe("the dialects", () => {
  it("say one refusal in their own shapes", () => {
    const error = new ModelNotFound("a/b");
    expect(body(error, "service")).toEqual({
      error: error.message,
      detail: { error: error.message },
      code: "model_not_found",
      request_id: "r1",
    });
    expect(body(error, "compat")).toEqual({
      error: { message: error.message, type: "invalid_request_error", param: "model", code: "model_not_found" },
    });
  });

  it("give compatible clients the type that they map by", () => {
    expect(body(new InvalidApiKey(), "compat").error.type).toBe("authentication_error");
    expect(body(new UpstreamBroken(), "compat").error.type).toBe("server_error");
  });
});

it("an unknown error tells nothing but the request id, and its cause is kept for the log", () => {
  const bug = new Error("password=hunter2");
  const refusal = refusalOf(bug);
  expect(refusal.cause).toBe(bug);
  expect(renderError(refusal, "service", "r1").body).not.toContain("hunter2");
  expect(refusalOf(undefined).status).toBe(500);
});

it("a phase and the time to come back are headers", () => {
  const { headers } = renderError(refusalOf(new ModelNotReady("a/b", "downloading", 4.2)), "compat", "r1");
  expect(headers.join(" ")).toContain("retry-after 5");
  expect(headers.join(" ")).toContain("x-stoker-phase downloading");
});

it("every refusal of the control plane that can reach the edge has a status", async () => {
  const root = join(import.meta.dirname, "../../../..");
  const files = globSync("control-plane/{accounts,billing,catalog,deployments,fleet,inference,http}/**/*.ts", {
    cwd: root,
  });
  expect(files.length).toBeGreaterThan(50);
  const declaring = files.filter((file) => readFileSync(join(root, file), "utf8").includes("extends ServiceError"));
  expect(declaring.length).toBeGreaterThan(5);
  const without: string[] = [];
  for (const file of declaring) {
    const exported = (await import(join(root, file))) as Record<string, unknown>;
    for (const [name, value] of Object.entries(exported)) {
      if (typeof value !== "function" || !(value.prototype instanceof ServiceError)) continue;
      const made = Object.create(value.prototype, {
        message: { value: "x" },
        constructor: { value },
        // Set by the engine, not by a table.
        engineStatus: { value: 400 },
      }) as ServiceError;
      if (refusalOf(made).status === 500) without.push(`${name} of ${file}`);
    }
  }
  expect(without).toEqual([]);
});
