import type { Responses } from "../../proto/gen/responses.ts";
import { useApi } from "../api.ts";
import { html, type View } from "../html.ts";
import { shown, useGet } from "../loaded.ts";
import { Act, Ago, Field, type Fields, Form } from "../parts/controls.ts";
import { actions, type Column, Table } from "../parts/table.ts";

type Voice = Responses["GET /v1/voices/{voice_id}"];

export function Voices(): View {
  const api = useApi();
  const voices = useGet<{ readonly voices: readonly Voice[] }>("/v1/voices");
  const add = (_fields: object, form: FormData) => voices.after(api.call("POST", "/v1/voices/add", form));
  const rename = ({ voice = "" }: Fields, form: FormData) => {
    form.delete("voice");
    return voices.after(api.call("POST", `/v1/voices/${encodeURIComponent(voice)}/edit`, form));
  };
  const columns: readonly Column<Voice>[] = [
    {
      name: "Voice",
      value: (one) => one.name,
      show: (one) => html`${one.name}<br /><code>${one.voice_id}</code>`,
    },
    { name: "Description", value: (one) => one.description },
    {
      name: "Owner",
      value: (one) => (isOwn(one) ? "you" : "model preset"),
    },
    {
      name: "Created",
      value: (one) => one.created_at,
      show: (one) => (one.created_at === 0 ? "–" : html`<${Ago} at=${one.created_at} />`),
    },
    actions(
      (one) =>
        isOwn(one) &&
        html`<${Act} label="Delete" command=${`stoker voice delete ${one.voice_id}`}
          sure=${`Delete the voice “${one.name}” and its recordings? This cannot be undone.`}
          onAct=${() => voices.after(api.call("DELETE", `/v1/voices/${encodeURIComponent(one.voice_id)}`))} />`,
    ),
  ];
  return html`${shown(voices, ({ voices: rows }) => {
    const own = rows.filter(isOwn);
    return html`<${Table} name="voices" rows=${rows} columns=${columns} keyOf=${(one: Voice) => one.voice_id}
        empty=${html`No voices. Creating one requires a deployed speech <a href="/console/models">model</a>.`} />
      ${
        own.length > 0 &&
        html`<h2>Rename a voice</h2>
        <${Form} act="Rename" done="Renamed." onSend=${rename}>
          <label>Voice<select name="voice">${own.map((one) => html`<option value=${one.voice_id}>${one.name}</option>`)}</select></label>
          <${Field} label="New name" name="name" maxlength="100" required />
          <${Field} label="New description" name="description" maxlength="1000" hint="Leave empty to remove it." />
        <//>`
      }`;
  })}
    <h2>Create a voice</h2>
    <p class="quiet">A mix of the model's voices that resembles the recordings, not a clone. Use only recordings of people who agreed.</p>
    <${Form} act="Create voice" done="Created." onSend=${add}>
      <${Field} label="Voice name" name="name" maxlength="100" required />
      <${Field} label="Description" name="description" maxlength="1000" />
      <label>Recordings of one speaker<input type="file" name="files" accept="audio/*,.webm" multiple required />
        <small>Up to 25, as wav, mp3, flac, ogg, m4a or webm. <code class="command">stoker voice add NAME recording.wav</code></small></label>
    <//>`;
}

const isOwn = ({ kind }: Voice): boolean => kind !== "preset";
