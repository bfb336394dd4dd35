// Lists and adds second factors of the user.

import { useEffect, useRef, useState } from "preact/hooks";
import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { canUsePasskeys, createPasskey } from "../passkey.ts";
import { Act, Ago, Code, Field, type Fields, Form } from "./controls.ts";

type FactorList = Responses["GET /v1/me/factors"];

type Started = Responses["POST /v1/me/factors"];

type Added = Responses["PUT /v1/me/factors"];

const path = "/v1/me/factors";

/** Calls `onKept` when the user has saved the recovery codes. */
export function SecondFactors({ onKept }: { onKept?: () => void }): View {
  const api = useApi();
  const list = useGet<FactorList>(path);
  const [app, setApp] = useState<Started | undefined>(undefined);
  const [codes, setCodes] = useState<readonly string[] | undefined>(undefined);

  const added = async ({ recovery_codes: fresh }: Added) => {
    setApp(undefined);
    if (fresh) setCodes(fresh);
    await list.reload();
    if (!fresh) onKept?.();
  };
  const addPasskey = async ({ name }: Fields) => {
    const { ticket, passkey } = await api.call<Started>("POST", path, { kind: "passkey" });
    await added(await api.call<Added>("PUT", path, { ticket, name, passkey: await createPasskey(passkey ?? {}) }));
  };
  const confirmApp = async ({ name, code }: Fields) =>
    added(await api.call<Added>("PUT", path, { ticket: app?.ticket, name, code }));
  const remove = (id: string) => list.after(api.call("DELETE", `${path}/${encodeURIComponent(id)}`));
  const rename = ({ factor = "", name }: Fields) =>
    list.after(api.call("PATCH", `${path}/${encodeURIComponent(factor)}`, { name }));
  const renew = async () => {
    setCodes((await api.call<{ recovery_codes: readonly string[] }>("POST", "/v1/me/recovery-codes")).recovery_codes);
    await list.reload();
  };

  if (codes) {
    const kept = () => {
      setCodes(undefined);
      onKept?.();
    };
    return html`<${Kept} codes=${codes} onKept=${kept} />`;
  }
  return shown(
    list,
    ({ factors, recovery_codes_left: left, required }) => html`
      ${
        factors.length === 0
          ? html`<p>${required ? "The operator requires a second factor: add one." : "None. Anyone who knows your password can sign in."}</p>`
          : html`<ul>${factors.map(
              (one) => html`<li key=${one.id}>${one.kind === "totp" ? "Authenticator app" : "Passkey"} “${one.name}”,
                added <${Ago} at=${one.created_at} />, last used <${Ago} at=${one.last_used_at} />
                <${Act} label="Remove" sure=${`Remove “${one.name}”?`} onAct=${() => remove(one.id)} /></li>`,
            )}</ul>
            <p>${left} recovery codes left. <${Act} label="Create new recovery codes"
              sure="Create new recovery codes? The old ones stop working." onAct=${renew} /></p>
            <h2>Rename a second factor</h2>
            <${Form} act="Rename" done="Renamed." onSend=${rename}>
              <label>Second factor<select name="factor">${factors.map(
                (one) => html`<option value=${one.id}>${one.name}</option>`,
              )}</select></label>
              <${Field} label="New name" name="name" maxlength="64" required />
            <//>`
      }
      ${
        canUsePasskeys() &&
        html`<h2>Add a passkey</h2>
        <p class="quiet">Use your device, password manager or security key. One that checks your fingerprint or PIN also signs
          you in without a password.</p>
        <${Form} act="Add a passkey" onSend=${addPasskey}>
          <${Field} label="Name of the passkey" name="name" maxlength="64" required placeholder="work laptop" />
        <//>`
      }
      ${
        !factors.some(({ kind }) => kind === "totp") &&
        html`<h2>Authenticator app</h2>${
          app?.totp
            ? html`<p>Scan this with the app, or type the secret, then enter the code that it shows.</p>
              <img class="qr" alt="QR code of the secret below" src=${`data:image/svg+xml,${encodeURIComponent(app.totp.qr_svg)}`} />
              <${Code} text=${app.totp.secret} />
              <${Form} act="Confirm" onSend=${confirmApp}>
                <${Field} label="Name of the app" name="name" maxlength="64" required value="Authenticator app" />
                <${Field} label="Code" name="code" inputmode="numeric" autocomplete="one-time-code" pattern="[0-9]{6}" maxlength="6"
                  required autofocus />
              <//>`
            : html`<p><${Act} label="Set up an authenticator app" onAct=${async () =>
                setApp(await api.call<Started>("POST", path, { kind: "totp" }))} /></p>`
        }`
      }`,
  );
}

/** Recovery codes, shown only once. */
function Kept({ codes, onKept }: { codes: readonly string[]; onKept: () => void }): View {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => heading.current?.focus(), []);
  return html`<section class="key" aria-labelledby="recovery-codes">
    <h2 id="recovery-codes" tabindex="-1" ref=${heading}>Save your recovery codes</h2>
    <p>If you lose your second factor, sign in with your password and one of these codes. Each works once. They are not shown again.</p>
    <${Code} text=${codes.join("\n")} />
    <p><button type="button" onClick=${onKept}>I have saved them</button></p>
  </section>`;
}
