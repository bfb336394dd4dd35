// A certificate of its own authority for the public port, as files.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

export interface CertificateFiles {
  readonly certFile: string;
  readonly keyFile: string;
}

/** Writes `<name>.pem` and `<name>.key` into `folder`. */
export function writeCertificate(folder: string, name: string): CertificateFiles {
  const [certFile, keyFile] = [join(folder, `${name}.pem`), join(folder, `${name}.key`)];
  execFileSync(
    "openssl",
    [
      ...["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"],
      ...["-subj", `/CN=${name}`, "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"],
      ...["-keyout", keyFile, "-out", certFile],
    ],
    { stdio: "pipe" },
  );
  return { certFile, keyFile };
}
