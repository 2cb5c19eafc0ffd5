-- Connections, what each source last offered, and the record of calls.

CREATE TABLE connections (
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  name TEXT NOT NULL,
  auth_type TEXT NOT NULL,
  category TEXT NOT NULL,
  target TEXT NOT NULL,
  metadata TEXT NOT NULL,
  secret_places TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  updated_at BIGINT NOT NULL,
  PRIMARY KEY (project, name)
);

-- One row per source of a version: its accepted definitions, what is quarantined, and how it is doing, as one blob.
CREATE TABLE source_records (
  project TEXT NOT NULL,
  toolbox TEXT NOT NULL,
  version INTEGER NOT NULL,
  label TEXT NOT NULL,
  record BLOB NOT NULL,
  PRIMARY KEY (project, toolbox, version, label),
  FOREIGN KEY (project, toolbox, version)
    REFERENCES toolbox_versions (project, toolbox, number) ON DELETE CASCADE
);

CREATE TABLE call_records (
  at BIGINT NOT NULL,
  project TEXT NOT NULL REFERENCES projects (name) ON DELETE CASCADE,
  toolbox TEXT NOT NULL,
  version INTEGER NOT NULL,
  principal TEXT NOT NULL,
  label TEXT NOT NULL,
  tool TEXT NOT NULL,
  outcome TEXT NOT NULL,
  duration_us BIGINT NOT NULL,
  arguments TEXT NOT NULL
);

CREATE INDEX call_records_by_toolbox ON call_records (project, toolbox, at);
