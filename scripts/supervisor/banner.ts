import { dirname, relative, resolve } from "node:path";

export interface Served {
  readonly modelName: string;
  /** Undefined: text generation. */
  readonly task?: string | undefined;
}

interface Running {
  readonly url: string;
  readonly keyFile: string;
  /** Models that are served; the first is called. */
  readonly models: readonly Served[];
  /** Signs in to the console once; undefined: the account has a second factor. */
  readonly signInLink?: string | undefined;
  /** Certificate of the public port, for clients that do not trust its authority. */
  readonly certFile?: string | undefined;
}

type Curl = (flags: string, url: string) => string;

/** Text after the start: URL, key file and a first call to paste. */
export function banner(running: Running, cwd: string): string {
  const near = relative(cwd, running.keyFile);
  const keyFile = near !== "" && !near.startsWith("..") ? near : running.keyFile;
  const cert = running.certFile && resolve(cwd, running.certFile);
  const trust = cert ? `--cacert ${quoted(cert)} ` : "";
  const curl = (flags: string, url: string): string =>
    `curl ${flags}${trust}${url} -H "Authorization: Bearer $(cat ${quoted(keyFile)})"`;
  const lines = [
    "",
    `Stoker is ready at ${running.url} (API reference: ${running.url}/docs).`,
    `API key: ${keyFile}`,
    `Console: ${running.url}/console`,
    ...(running.models.length > 1 ? [`Models: ${running.models.map(({ modelName }) => modelName).join(", ")}`] : []),
    ...linkLines(running.signInLink, linkCall(keyFile, cert)),
    "",
  ];
  const [first] = running.models;
  if (!first) lines.push("Your account:", "", `  ${curl("", `${running.url}/v1/me`)}`);
  else lines.push(...firstCall(curl, running.url, first));
  return [...lines, "", "Ctrl-C stops everything.", ""].join("\n");
}

function firstCall(curl: Curl, url: string, { modelName, task }: Served): readonly string[] {
  switch (task) {
    case "text-to-speech":
      return ["Generate speech:", "", speechCall(curl, url, modelName)];
    case "automatic-speech-recognition":
      return ["Transcribe a recording:", "", transcriptionCall(curl, url, modelName)];
    case "text-to-image":
      return ["Generate an image:", "", imageCall(curl, url, modelName)];
    case "embeddings":
      return ["Create embeddings:", "", embeddingsCall(curl, url, modelName)];
    default:
      return ["Stream a chat response:", "", streamingCall(curl, url, modelName)];
  }
}

/** Text for a control plane that joined another installation. */
export const joinedBanner = (url: string): string =>
  [
    "",
    `This control plane is ready at ${url}, together with the other control planes of its database.`,
    "",
    "Ctrl-C stops it.",
    "",
  ].join("\n");

export const databaseBanner = (dataDir: string): string =>
  ["", `Only the PostgreSQL of ${dataDir} is running.`, "", "Ctrl-C stops everything.", ""].join("\n");

function streamingCall(curl: Curl, url: string, model: string): string {
  return jsonCall(curl, "-N ", `${url}/v1/chat/completions`, {
    model,
    stream: true,
    temperature: 0,
    max_tokens: 60,
    messages: [{ role: "user", content: "Tell me the capital of France." }],
  });
}

function speechCall(curl: Curl, url: string, model: string): string {
  const body = { model, input: "Hello, I am running on your machine.", response_format: "mp3" };
  return jsonCall(curl, "-o hello.mp3 ", `${url}/v1/audio/speech`, body);
}

function imageCall(curl: Curl, url: string, model: string): string {
  const body = { model, prompt: "a handwritten seven", size: "64x64" };
  return jsonCall(curl, "", `${url}/v1/images/generations`, body);
}

function embeddingsCall(curl: Curl, url: string, model: string): string {
  const body = { model, input: ["The capital of France.", "Paris"] };
  return jsonCall(curl, "", `${url}/v1/embeddings`, body);
}

function jsonCall(curl: Curl, flags: string, url: string, body: object): string {
  return [
    `  ${curl(flags, url)} \\`,
    `    -H 'Content-Type: application/json' \\`,
    `    -d '${JSON.stringify(body).replaceAll("'", "'\\''")}'`,
  ].join("\n");
}

function transcriptionCall(curl: Curl, url: string, model: string): string {
  return `  ${curl("", `${url}/v1/audio/transcriptions`)} \\
    -F model=${model} -F file=@recording.wav`;
}

const linkLines = (link: string | undefined, command: string): readonly string[] =>
  link === undefined
    ? []
    : [
        "",
        "Sign in to the console without a password (once, within 15 minutes):",
        "",
        `  ${link}`,
        "",
        `Another link: ${command}`,
      ];

/** The command finds URL and key through the data folder. */
function linkCall(keyFile: string, cert: string | undefined): string {
  const folder = dirname(keyFile);
  return `${cert ? `NODE_EXTRA_CA_CERTS=${quoted(cert)} ` : ""}${folder === ".stoker" ? "" : `STOKER_DATA=${quoted(folder)} `}npx stoker auth link`;
}

const quoted = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
