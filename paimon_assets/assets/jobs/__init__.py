"""Jobs on tables: compaction, maintenance, schema evolution, and what makes them due."""
