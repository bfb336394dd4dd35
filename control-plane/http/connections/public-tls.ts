// Certificate and key of the public port, from files that a renewal replaces while this process runs.

import { X509Certificate } from "node:crypto";
import { type FSWatcher, watch } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname } from "node:path";
import { createSecureContext, type SecureContextOptions } from "node:tls";
import type { Logger } from "pino";
import { OperatorError } from "../../service-error.ts";

export interface TlsFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

export interface PublicTls {
  /** With the newest certificate and key. */
  options(): SecureContextOptions;
  /** Called with other options when the files have changed. Open connections keep what they were shown. */
  onChange(listener: (options: SecureContextOptions) => void): void;
}

/** A certificate and key that cannot be served. */
export class TlsFilesRefused extends OperatorError {
  override readonly name = "TlsFilesRefused";
}

export interface WatchedTls extends PublicTls {
  close(): void;
}

/** Delay before reading changed files: certificate and key are written one after the other and may not match in between. */
const settleMs = 500;
/** Interval of checks for changes that the file system does not report, for example on a network drive. */
const checkEveryMs = 60_000;

/** Throws TlsFilesRefused. */
export async function watchTls(files: TlsFiles, log: Pick<Logger, "info" | "error">): Promise<WatchedTls> {
  let current = await read(files);
  let timer: NodeJS.Timeout | undefined;
  const listeners: ((options: SecureContextOptions) => void)[] = [];

  async function reload(): Promise<void> {
    try {
      const next = await read(files);
      if (next.cert === current.cert && next.key === current.key) return;
      current = next;
      for (const listener of listeners) listener(next);
      log.info({ certificate: aboutOf(next.cert) }, "serving a new TLS certificate");
    } catch (error) {
      log.error({ err: error }, "could not load the new TLS certificate; serving the old one");
    }
  }
  const soon = () => {
    clearTimeout(timer);
    timer = setTimeout(() => void reload(), settleMs).unref();
  };
  // The folders, not the files: a renewal replaces a file, or the link to it.
  const folders = new Set([files.certFile, files.keyFile].map((file) => dirname(file)));
  const watchers: FSWatcher[] = [...folders].map((folder) =>
    watch(folder, { persistent: false }, soon).on("error", () => {}),
  );
  const checking = setInterval(() => void reload(), checkEveryMs).unref();

  log.info({ certificate: aboutOf(current.cert) }, "serving TLS");
  return {
    options: () => current,
    onChange: (listener) => void listeners.push(listener),
    close() {
      clearTimeout(timer);
      clearInterval(checking);
      for (const watcher of watchers) watcher.close();
    },
  };
}

type Loaded = SecureContextOptions & { readonly cert: string; readonly key: string };

async function read({ certFile, keyFile }: TlsFiles): Promise<Loaded> {
  try {
    const [cert, key] = await Promise.all([readFile(certFile, "utf8"), readFile(keyFile, "utf8")]);
    const options = { cert, key, minVersion: "TLSv1.2" } as const;
    createSecureContext(options);
    return options;
  } catch (error) {
    throw new TlsFilesRefused(
      `STOKER_TLS_CERT and STOKER_TLS_KEY cannot be served: ${(error as Error).message}. Give a PEM certificate chain and its private key.`,
      { cause: error },
    );
  }
}

function aboutOf(cert: string): object {
  const { subjectAltName, validTo } = new X509Certificate(cert);
  return { names: subjectAltName, validTo };
}
