/** What engines have brought. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useMayAct, workflows } from "../api/queries.ts";
import { Icon } from "../parts/Icon.tsx";
import { Empty, Loading, Page, Wrong } from "../parts/Page.tsx";
import { Sheet } from "../parts/Sheet";
import { StartRun } from "./StartRun.tsx";

export function WorkflowsView() {
  const { data, error, refetch } = useQuery(workflows);
  const mayAct = useMayAct();
  const [starting, setStarting] = useState<string>();
  if (!data && !error) return <Loading />;
  return (
    <Page title="Workflows" sub={data && `${data.length}`}>
      {error && <Wrong why={error} again={() => void refetch()} />}
      {data?.length === 0 && (
        <div className="card">
          <Empty icon="workflows" title="No engine has brought a workflow">
            <p>A workflow is known here once a program has launched an engine with it.</p>
            <pre className="json">
              {'Engine::open("sqlite://app.db")\n    .workflow(etl::workflow())\n    .launch().await?'}
            </pre>
          </Empty>
        </div>
      )}
      {data && data.length > 0 && (
        <Sheet label="Workflows">
          <table>
            <thead>
              <tr>
                <th>Workflow</th>
                <th>What it does</th>
                <th className="number">Tasks</th>
                <th>Version</th>
                <th>
                  <span className="hidden-label">Actions</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {data.map((one) => (
                <tr key={one.name}>
                  <td className="main">
                    <Link to="/workflows/$name" params={{ name: one.name }}>
                      {one.name}
                    </Link>
                  </td>
                  <td className="quiet wide-cell">{one.description}</td>
                  <td className="number">{one.tasks}</td>
                  <td>
                    <code className="quiet" title={one.version}>
                      {one.version.slice(0, 12)}
                    </code>
                  </td>
                  <td>
                    <div className="row ends">
                      <Link to="/runs" search={{ workflow: one.name }} className="button small">
                        Runs
                      </Link>
                      {mayAct && (
                        <button
                          type="button"
                          className="button small"
                          onClick={() => setStarting(one.name)}
                          aria-label={`Start ${one.name}`}
                        >
                          <Icon name="play" size={12} /> Start
                        </button>
                      )}
                    </div>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Sheet>
      )}
      {starting && <StartRun of={starting} close={() => setStarting(undefined)} />}
    </Page>
  );
}
