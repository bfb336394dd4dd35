import { expect, test } from "vitest";
import { demoModels } from "../../../control-plane/catalog/demo-models.ts";
import { refusal } from "../../../scripts/supervisor/api.ts";
import { banner } from "../../../scripts/supervisor/banner.ts";

const running = {
  url: "http://127.0.0.1:8080",
  keyFile: "/srv/it's/.stoker/admin.key",
  models: [{ modelName: "o/m" }],
};

const of = (task: string) => banner({ ...running, models: [{ modelName: "o/m", task }] }, "/");

test("prints a call that reads the key from a file with any name", () => {
  const text = banner(running, "/elsewhere");
  expect(text).toContain("curl -N http://127.0.0.1:8080/v1/chat/completions");
  expect(text).toContain(`$(cat '/srv/it'\\''s/.stoker/admin.key')`);
  expect(text).toContain('"stream":true');
});

test("prints a relative path of the key file within the clone", () => {
  expect(banner(running, "/srv/it's")).toContain("API key: .stoker/admin.key");
});

test("prints the console, a link that signs in and the command for another one", () => {
  const linked = { ...running, signInLink: "http://127.0.0.1:8080/login/link?ticket=t" };
  const near = banner(linked, "/srv/it's");
  expect(near).toContain("Console: http://127.0.0.1:8080/console\n");
  expect(near).toContain("\n  http://127.0.0.1:8080/login/link?ticket=t\n");
  expect(banner(linked, "/elsewhere")).toContain(`STOKER_DATA='/srv/it'\\''s/.stoker' npx stoker auth link\n`);
});

test("prints no link for an account that needs a second factor", () => {
  expect(banner(running, "/srv")).not.toContain("auth link");
});

test("passes the certificate of the public port to every call", () => {
  const signInLink = "https://127.0.0.1:8080/login/link?ticket=t";
  const text = banner({ ...running, url: "https://127.0.0.1:8080", certFile: "tls/it's.pem", signInLink }, "/srv");
  expect(text).toContain(`curl -N --cacert '/srv/tls/it'\\''s.pem' https://127.0.0.1:8080/v1/chat/completions`);
  expect(text).toContain(`NODE_EXTRA_CA_CERTS='/srv/tls/it'\\''s.pem' `);
  expect(banner(running, "/srv")).not.toMatch(/cacert|NODE_EXTRA/);
});

test("offers a call that works without a model", () => {
  expect(banner({ ...running, models: [] }, "/")).toContain("/v1/me");
  expect(of("text-to-speech")).toContain("/v1/audio/speech");
  expect(of("text-to-image")).toContain("/v1/images/generations");
  expect(of("automatic-speech-recognition")).toContain("-F file=@recording.wav");
});

test("offers a chat only for demo models that generate text", () => {
  for (const { key, task } of demoModels) {
    const text = of(task);
    expect(text.includes("chat/completions"), key).toBe(task === "text-generation");
  }
  expect(of("embeddings")).toMatch(/\/v1\/embeddings .*"input":\[/s);
});

test("names all models when several are served, and calls the first", () => {
  const text = banner({ ...running, models: [{ modelName: "a/b", task: "embeddings" }, { modelName: "c" }] }, "/");
  expect(text).toContain("Models: a/b, c\n");
  expect(text).toContain('"model":"a/b"');
  expect(banner(running, "/")).not.toContain("Models:");
});

test("shows a refusal of the API in its own words", () => {
  expect(refusal({ status: 402, body: { error: "no funds" } })).toBe("no funds");
  expect(refusal({ status: 422, body: { detail: [{ loc: ["body", "gpu"], msg: "unknown" }] } })).toBe(
    "body.gpu: unknown",
  );
  expect(refusal({ status: 500, body: "<html>" })).toBe("status 500");
});
