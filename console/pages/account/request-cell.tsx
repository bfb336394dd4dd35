import type { ReactNode } from "react";
import { Below } from "../../ui/data-table.tsx";
import { Link } from "../../ui/link.tsx";
import { Ago } from "../../ui/time.tsx";

interface RequestCellProps {
  readonly of: { readonly request_id: string; readonly created_at: number };
  /** Path of the page that has a page for each request. */
  readonly folder: string;
}

/** Id of a request in a table, linked to its page, with its time below. */
export const RequestCell = ({ of: { request_id: id, created_at: at }, folder }: RequestCellProps): ReactNode => (
  <>
    <Link to={`${folder}/${encodeURIComponent(id)}`} ff="monospace" fz="xs">
      {id}
    </Link>
    <Below>
      <Ago at={at} />
    </Below>
  </>
);
